"""Tables: how rows become numbers, how they are split, and that a file is read in blocks and encoded once."""

from collections import Counter
from math import log1p

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from tests.data.logs import ANY, HEADER, lines, log, opened, places, rows_of, said, write
from untrained.data import load_data
from untrained.data.tables import reader as _reader
from untrained.data.tables import survey as _survey
from untrained.data.tables import values as _values
from untrained.errors import UsageError
from untrained.types import Task


@pytest.fixture
def path(tmp_path):
    return write(tmp_path / "log.csv", lines(log()))


def test_a_table_is_a_task_with_dense_columns_and_then_identifiers(path):
    source = opened(path)
    often = sum(
        n > 1 for n in Counter(log()[i][1] for i in places(rows_of(source))["train"]).values()
    )
    assert source.task == Task("csv:log.csv", (3,), 1, "bce", (often + 1,))
    batch = source.batch(7)
    assert (batch.inputs.shape, batch.inputs.dtype) == ((7, 3), torch.float32)
    assert (batch.targets.shape, batch.targets.dtype) == ((7,), torch.int64)


def test_every_row_is_in_one_part_with_its_own_label(path):
    parts = rows_of(opened(path))
    found = places(parts)
    assert sorted(np.concatenate(list(found.values()))) == list(range(300))
    for name, rows in parts.items():
        assert [int(label) for label in rows[:, -1]] == [log()[i][0] for i in found[name]]
        assert list(found[name]) == sorted(found[name])  # as they lie in the file
    assert [len(parts[name]) / 300 for name in parts] == pytest.approx([0.8, 0.1, 0.1], abs=0.06)


def test_dense_columns_are_normal_over_the_training_part_and_counts_go_through_a_logarithm(path):
    parts = rows_of(opened(path))
    found = places(parts)
    learned = [log()[i] for i in found["train"]]
    for column, values in enumerate([[r[2] for r in learned], [log1p(r[3]) for r in learned]]):
        mean, std = np.mean(values), np.std(values)
        for name, rows in parts.items():
            raw = [log()[i][2] if column == 0 else log1p(log()[i][3]) for i in found[name]]
            assert rows[:, column] == pytest.approx((np.array(raw) - mean) / std, abs=1e-5)


def test_identifiers_are_numbered_if_they_come_often_in_training_and_zero_otherwise(path):
    for floor in (1, 2, 5):
        source = opened(path, f"?floor={floor}")
        parts = rows_of(source)
        found = places(parts)
        counts = Counter(log()[i][1] for i in found["train"])
        numbers = {
            log()[i][1]: int(n)
            for name in parts
            for i, n in zip(found[name], parts[name][:, 2], strict=True)
        }
        kept = {user for user in numbers if counts[user] >= floor}
        assert {user for user, number in numbers.items() if number > 0} == kept
        assert sorted(numbers[user] for user in kept) == list(range(1, len(kept) + 1))
        assert source.task.vocabularies == (len(kept) + 1,)
    assert any(counts[user] == 0 for user in numbers)  # somebody was never seen in training


def test_a_column_with_too_many_identifiers_is_hashed_and_the_card_says_so(path):
    source = opened(path, "?hash=8")
    parts = rows_of(source)
    found = places(parts)
    pairs = {
        (log()[i][1], int(n))
        for name in parts
        for i, n in zip(found[name], parts[name][:, 2], strict=True)
    }
    users = {user for user, _ in pairs}
    assert len(pairs) == len(users) > 8  # one number each
    assert {number for _, number in pairs} == set(range(8))
    assert source.task.vocabularies == (8,)
    (row,) = [row for row in source.card().rows if row["column"] == "user"]
    assert row["treatment"] == "hashed into 8"
    assert str(row["distinct"]).endswith("or more")


def test_counting_stops_when_a_column_has_too_many(monkeypatch):
    """Ten thousand different ones of which a thousand are too many: what was counted is forgotten."""
    counting = _survey.IdentifierCounter(limit=1000)
    for start in range(0, 100_000, 10_000):
        counting.add(
            pa.array([f"user {i}" for i in range(start, start + 10_000)]), np.ones(10_000, bool)
        )
    assert counting.is_full
    assert 1000 < counting.distinct < 100_000
    assert [len(array) for array in counting.merge()] == [0, 0]


def test_counts_of_many_blocks_add_up(monkeypatch):
    counting, expected = _survey.IdentifierCounter(limit=100_000), Counter[str]()
    draw = np.random.default_rng(0)
    for _ in range(8):
        users = [f"user {i}" for i in draw.zipf(1.3, 20_000) % 50_000]
        learned = draw.random(20_000) < 0.5
        counting.add(pa.array(users), learned)
        expected.update(user for user, there in zip(users, learned, strict=True) if there)
    found, counts = counting.merge()
    assert sorted(counts) == sorted(expected.values())
    assert (np.diff(found.astype(object)) > 0).all()


def test_moments_of_many_blocks_are_those_of_the_whole():
    values = np.random.default_rng(0).normal(1e6, 3.0, 5000)
    moments = _survey.RunningStatistics(use_log=False)
    for block in np.split(values, [1, 2, 500, 4000]):
        moments.add(pa.array(block), np.ones(len(block), bool))
    assert (moments.mean, moments.std) == pytest.approx((values.mean(), values.std()), rel=1e-9)


def test_a_missing_number_is_the_mean_and_a_missing_identifier_is_an_identifier(tmp_path):
    rows = [
        (r[0], "" if i % 3 == 0 else r[1], r[2], "" if i % 2 else r[3]) for i, r in enumerate(log())
    ]
    source = opened(write(tmp_path / "holes.csv", lines(rows)))
    parts = rows_of(source)
    found = places(parts)
    numbers = {
        rows[i][1]: int(n)
        for name in parts
        for i, n in zip(found[name], parts[name][:, 2], strict=True)
    }
    assert numbers[""] > 0
    assert [number for user, number in numbers.items() if number == numbers[""]] == [numbers[""]]
    for name in parts:
        assert all(
            value == 0 for i, value in zip(found[name], parts[name][:, 1], strict=True) if i % 2
        )
    missing = {row["column"]: row["missing"] for row in source.card().rows}
    assert missing == {"price": 0, "count": 150, "user": 100}


@pytest.mark.parametrize("dated", [False, True])
def test_a_split_by_time_judges_the_last_rows_and_does_not_show_the_time(tmp_path, dated):
    moments = np.random.default_rng(0).permutation(300)
    told = [f"2014-10-{1 + m // 24:02d}T{m % 24:02d}:00:00Z" if dated else str(m) for m in moments]
    rows = [(*r, when) for r, when in zip(log(), told, strict=True)]
    source = opened(write(tmp_path / "timed.csv", lines(rows), HEADER + ",hour"), "?time=hour")
    found = {name: moments[which] for name, which in places(rows_of(source)).items()}
    assert {name: (which.min(), which.max(), len(which)) for name, which in found.items()} == {
        "train": (0, 239, 240), "val": (240, 269, 30), "test": (270, 299, 30)
    }  # fmt: skip
    assert source.task.input_shape == (3,)
    assert "hour: dropped: it orders the split" in said(source.card())


@pytest.mark.parametrize(
    ("name", "moment", "looks"),
    [
        ("day", "2014-10-{:02d}", True),
        ("seen", "2014-10-21T07:{:02d}:00Z", True),
        ("event_timestamp", "14139{:02d}", True),  # by its name
        ("update", "{}", False),
        ("words", "2014-10-21 or {}", False),
    ],
)
def test_the_card_of_a_table_with_dates_proposes_to_split_by_them(tmp_path, name, moment, looks):
    rows = [(*row, moment.format(1 + i % 28)) for i, row in enumerate(log())]
    path = write(tmp_path / "dated.csv", lines(rows), f"{HEADER},{name}")
    proposed = opened(path).card().facts.get("proposed", "")
    assert (
        proposed.startswith(f"time={name} after the ? of --data ({name} looks like a date") == looks
    )
    if looks:
        assert "proposed" not in opened(path, f"?time={name}").card().facts
        assert "proposed" not in opened(path, f"?drop={name}").card().facts
    else:
        assert not proposed


def test_equal_moments_keep_the_order_of_the_file(tmp_path):
    rows = [(*r, 7) for r in log()]
    found = places(
        rows_of(opened(write(tmp_path / "same.csv", lines(rows), HEADER + ",hour"), "?time=hour"))
    )
    assert list(found["test"]) == list(range(270, 300))


# ---------------------------------------------------------------------------------------------- what a column is


def test_columns_are_inferred_from_their_values_and_names(tmp_path):
    header = "label,text,number,count,user_id,itemID,bid,code,empty,same"
    rows = [
        (i % 2, f"t{i % 5}", i / 7, i * i, i // 3, i // 4, i // 2, i % 4, "", 1) for i in range(200)
    ]
    card = opened(write(tmp_path / "kinds.csv", lines(rows), header)).card()
    kinds = {row["column"]: row["kind"] for row in card.rows}
    dense, identifiers = ["number", "count", "bid"], ["text", "user_id", "itemID", "code"]
    assert kinds == dict.fromkeys(dense, "dense") | dict.fromkeys(identifiers, "identifiers")
    leak = (
        "code: tells the label by itself, a leak? write drop=code"  # it is odd where the label is 1
    )
    assert said(card) == [leak, "empty: dropped: one value only", "same: dropped: one value only"]
    logs = {row["column"] for row in card.rows if row["treatment"].startswith("log")}
    assert logs == {"count", "bid"}


def test_what_the_user_says_goes_before_what_is_inferred(path):
    source = opened(path, "?label=click&categorical=count&drop=user&log=all&floor=1")
    assert [(row["column"], row["kind"]) for row in source.card().rows] == [
        ("price", "dense"),
        ("count", "identifiers"),
    ]
    assert source.card().rows[0]["treatment"].startswith("log")
    assert "user: dropped: named in drop" in said(source.card())


def test_a_label_above_a_threshold(path):
    parts = rows_of(opened(path, "?label=count&above=499.5&drop=click"))
    found = places(parts)
    for name, rows in parts.items():
        assert [bool(label) for label in rows[:, -1]] == [log()[i][3] > 499.5 for i in found[name]]


@pytest.mark.parametrize("words", [("no", "yes"), ("False", "True"), ("0.0", "1.0"), (" 0", "1 ")])
def test_two_words_are_a_label(tmp_path, words):
    rows = [(words[r[0]], *r[1:]) for r in log()]
    parts = rows_of(opened(write(tmp_path / "words.csv", lines(rows))))
    assert sum(int(rows[:, -1].sum()) for rows in parts.values()) == sum(r[0] for r in log())


@pytest.mark.parametrize("said_so", ["comma", ","])
def test_numbers_with_a_decimal_comma_are_read_like_those_with_a_point(tmp_path, said_so):
    """Those of the label, of the time and of identifiers too: row for row the same."""
    header = "click;user;price;level;late"
    rows = [f"{r[0]}.0;{r[1]};{r[2]};{r[3] % 4}.5;{299.5 - i}" for i, r in enumerate(log())]
    plain = opened(write(tmp_path / "point.csv", rows, header), "?time=late&categorical=level")
    commas = write(tmp_path / "comma.csv", [row.replace(".", ",") for row in rows], header)
    source = opened(commas, f"?time=late&categorical=level&decimal={said_so}")
    assert source.task.vocabularies == plain.task.vocabularies
    assert (source.card().problems, source.schema.decimal) == (plain.card().problems, ",")
    for name, found in rows_of(plain).items():
        assert np.array_equal(rows_of(source)[name], found)


def test_where_commas_are_decimal_a_point_may_be_one_too_but_not_of_a_thousand():
    texts = [
        "3,5",
        " -3,5 ",
        "1,5e3",
        "3.5",
        "1.234",
        "1.234,5",
        "1.234.567",
        "a,b",
        "2014-10-21 07:00:00,5",
        None,
    ]
    points = [
        "3.5",
        " -3.5 ",
        "1.5e3",
        "3.5",
        "1,234",
        "1,234.5",
        "1,234,567",
        "a,b",
        "2014-10-21 07:00:00,5",
        None,
    ]
    assert _values.replace_decimal_comma(pa.array(texts)).to_pylist() == points
    assert _values.replace_decimal_comma(pa.array(texts).dictionary_encode()).to_pylist() == points
    values, text = _values.read_numbers(_values.replace_decimal_comma(pa.array(texts)))
    assert [*values[:4]] == [3.5, -3.5, 1500, 3.5]
    assert [*text] == [False] * 4 + [True] * 5 + [False]


@pytest.mark.parametrize(
    ("written", "looks"),
    [
        ("{0},{1:02d}", True),
        ("{0},{1}e-2", True),
        ("1,{1:03d}", False),  # may be thousands
        ("{0},{1},5", False),
        ("{0}.{1}", False),
        ("{0}", False),
    ],
)
def test_texts_that_look_like_numbers_with_a_decimal_comma_are_told(tmp_path, written, looks):
    """Whether a value comes often or the column is dropped; once it is called one of identifiers no more."""
    rows = [f"{r[0]};{r[1]};{r[2]};{written.format(i % 30, i)}" for i, r in enumerate(log())]
    path = write(tmp_path / "euro.csv", rows, "click;user;price;sum")
    advice = "sum: looks like numbers with a decimal comma; write decimal=comma"
    assert (advice in said(opened(path).card())) == looks
    assert advice not in said(opened(path, "?categorical=sum&floor=1").card())
    if looks:
        with pytest.raises(
            UsageError, match=r"100% of the values of sum are text; it looks like .* decimal=comma"
        ):
            opened(path, "?dense=sum")


def test_names_with_commas_and_ampersands_can_be_said(tmp_path):
    rows = [(f'"{r[1]}"', *r[::2], r[3]) for r in log()]
    path = write(tmp_path / "names.csv", lines(rows), '"a,b",R&D,price,count')
    source = opened(path, "?label=R%26D&drop=a%2Cb")
    assert [row["column"] for row in source.card().rows] == ["price", "count"]


def test_any_number_of_columns_can_be_said(tmp_path):
    many = [f"a_column_of_a_long_name_{i}" for i in range(20)]
    rows = [(*r, *range(i, i + 20)) for i, r in enumerate(log())]
    path = write(tmp_path / "wide.csv", lines(rows), ",".join([HEADER, *many]))
    source = opened(path, f"?label=click&drop={','.join(many)}")
    assert [row["column"] for row in source.card().rows] == ["price", "count", "user"]


@pytest.mark.parametrize(
    ("clicks", "caution"),
    [
        (30, ""),
        (29, "of 100 rows to be judged on only 29 with the label 1; their AUC will say little"),
        (71, "of 100 rows to be judged on only 29 with the label 0; their AUC will say little"),
        (0, "of 100 rows to be judged on none has the label 1: no AUC"),
    ],
)
def test_the_card_says_when_those_to_be_judged_on_are_too_few(tmp_path, clicks, caution):
    """The last 100 of 1,000 rows; before them there are enough of both."""
    rows = [(i % 2 if i < 900 else int(i < 900 + clicks), f"u{i % 7}", i) for i in range(1000)]
    path = write(tmp_path / "rare.csv", lines(rows), "click,user,hour")
    assert opened(path, "?time=hour").card().facts.get("caution", "") == caution


# --------------------------------------------------------------------------------------------------- files and blocks


def test_blocks_do_not_change_what_is_read(path, monkeypatch, tmp_path):
    whole = rows_of(opened(path))
    monkeypatch.setattr(_reader, "BLOCK_BYTES", 500)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "other"))
    blocks = [block for block, _ in _reader.open_csv(path).blocks(_reader.BadRows())]
    assert len(blocks) > 5
    for name, rows in rows_of(opened(path)).items():
        assert rows == pytest.approx(whole[name], abs=1e-5)


def test_a_parquet_file_gives_the_same_rows_as_the_csv_file(path, tmp_path):
    names = HEADER.split(",")
    columns = {name: [row[i] for row in log()] for i, name in enumerate(names)}
    columns |= {
        "user": pa.array(columns["user"]).dictionary_encode(),
        "click": [bool(c) for c in columns["click"]],
    }
    pq.write_table(
        pa.table({**columns, "list": [[1]] * 300}), tmp_path / "log.parquet", row_group_size=70
    )
    source = load_data(f"parquet:{tmp_path}/log.parquet", ANY)
    assert source.task.dataset == "parquet:log.parquet"
    assert "list: dropped: lists and structures are not read" in said(source.card())
    for name, rows in rows_of(opened(path)).items():
        assert rows_of(source)[name] == pytest.approx(rows, abs=1e-6)


def test_a_moment_of_a_parquet_file_is_a_number_or_an_identifier_and_a_duration_is_not_read(
    tmp_path,
):
    """Of any unit: row i lies i hours, and i % 3 days, after 1970; a day that comes often is an identifier."""
    rows = {"click": [r[0] for r in log()], "price": [r[2] for r in log()]}
    for unit, ticks in {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}.items():
        rows[f"at_{unit}"] = pa.array([i * 3600 * ticks for i in range(300)], pa.timestamp(unit))
    rows["day"] = pa.array([i % 3 for i in range(300)], pa.date32())
    rows |= {
        "clock": pa.array(range(300), pa.time32("s")),
        "took": pa.array(range(300), pa.duration("s")),
    }
    pq.write_table(pa.table(rows), tmp_path / "log.parquet")
    source = load_data(f"parquet:{tmp_path}/log.parquet?log=none", ANY)
    parts = rows_of(source)
    for name, which in places(parts).items():
        seconds = [column.mean / 10**6 for column in source.schema.dense[1:]]
        hours = (which - seconds[0] / 3600) * 3600 * 10**6 / source.schema.dense[1].std
        assert seconds == pytest.approx([seconds[0]] * 4)
        assert parts[name][:, 1:5] == pytest.approx(np.stack([hours] * 4, axis=1), abs=1e-5)
        numbers = {
            int(row % 3): int(number) for row, number in zip(which, parts[name][:, 5], strict=True)
        }
        assert [numbers[int(row % 3)] for row in which] == list(parts[name][:, 5])
        assert sorted(numbers.values()) == [1, 2, 3]
    assert said(source.card()) == [
        f"{name}: dropped: times of day and durations are not read" for name in ("clock", "took")
    ]
    assert source.card().rows[1]["treatment"].startswith("microseconds since 1970, mean")


def test_truth_is_no_number_in_either_file(tmp_path):
    truth = [i % 3 > 0 for i in range(300)]
    pq.write_table(
        pa.table({"click": [r[0] for r in log()], "flag": truth}), tmp_path / "log.parquet"
    )
    path = write(
        tmp_path / "log.csv",
        lines([(r[0], t) for r, t in zip(log(), truth, strict=True)]),
        "click,flag",
    )
    for data in (f"csv:{path}", f"parquet:{tmp_path}/log.parquet"):
        with pytest.raises(
            UsageError, match="100% of the values of flag are text; write categorical=flag"
        ):
            load_data(f"{data}?dense=flag", ANY)


@pytest.mark.parametrize("separator", [";", "\t", "|"])
def test_other_separators_are_found(path, tmp_path, separator):
    other = tmp_path / "other.csv"
    other.write_text(path.read_text().replace(",", separator))
    for name, rows in rows_of(opened(path)).items():
        assert np.array_equal(rows_of(opened(other))[name], rows)


def test_a_table_is_encoded_once_and_again_when_the_file_or_the_options_change(
    path, cache, monkeypatch
):
    first = opened(path)
    (folder,) = cache.iterdir()
    made = (folder / "train").stat().st_mtime_ns
    assert torch.equal(opened(path).batch(9).inputs, first.batch(9).inputs)
    assert [*cache.iterdir()] == [folder]
    assert (folder / "train").stat().st_mtime_ns == made
    opened(path, "?floor=1")
    assert len([*cache.iterdir()]) == 2
    write(path, lines(log(200)))
    assert sum(map(len, opened(path).parts.values())) == 200
    assert len([*cache.iterdir()]) == 3


def test_a_table_that_cannot_be_encoded_leaves_nothing_behind(tmp_path, cache):
    with pytest.raises(UsageError):
        opened(write(tmp_path / "one.csv", [f"1,u{i % 3},{i}.5,{i}" for i in range(100)]))
    assert not cache.exists() or not [*cache.iterdir()]


# ------------------------------------------------------------------------------------------------------------ batches


def test_the_seed_decides_what_is_looked_at_and_a_small_batch_is_the_head_of_a_large_one(path):
    source = opened(path)
    small, large, other = source.batch(5, seed=1), source.batch(20, seed=1), source.batch(5, seed=2)
    assert torch.equal(small.inputs, large.inputs[:5])
    assert not torch.equal(small.inputs, other.inputs)
    train = {row[:-1].tobytes() for row in rows_of(source)["train"]}
    assert all(row.tobytes() in train for row in source.batch(400).inputs.numpy())
    assert len(source.batch(400)) == len(train)


def test_a_pass_shows_every_row_once_in_the_order_of_the_generator(path):
    part = opened(path).parts["train"]
    passes = [
        torch.cat(
            [batch.inputs[:, 0] for batch in part.batches(50, torch.Generator().manual_seed(seed))]
        )
        for seed in (1, 1, 2)
    ]
    plain = torch.cat([batch.inputs[:, 0] for batch in part.batches(50)])
    assert torch.equal(passes[0], passes[1])
    assert not torch.equal(passes[0], passes[2])
    assert torch.equal(passes[0].sort().values, plain)  # prices grow
    assert torch.equal(passes[2].sort().values, plain)
    assert [len(batch) for batch in part.batches(100)][:-1] == [100] * (len(part) // 100)
