"""Tables: rows are encoded and split, columns are inferred, files are read in blocks and cached."""

from collections import Counter
from math import log1p

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from tests.data.logs import (
    ANY,
    HEADER,
    find_row_numbers,
    format_rows,
    list_problems,
    make_log,
    open_table,
    read_parts,
    write_csv,
)
from untrained.data import load_data
from untrained.data.tables import reader as _reader
from untrained.data.tables import survey as _survey
from untrained.data.tables import values as _values
from untrained.errors import UsageError
from untrained.types import Task


@pytest.fixture
def path(tmp_path):
    return write_csv(tmp_path / "log.csv", format_rows(make_log()))


def test_a_table_is_a_task_with_dense_columns_and_then_identifiers(path):
    source = open_table(path)
    training_rows = find_row_numbers(read_parts(source))["train"]
    counts = Counter(make_log()[i][1] for i in training_rows)
    frequent_users = [user for user, count in counts.items() if count > 1]
    assert source.task == Task("csv:log.csv", (3,), 1, "bce", (len(frequent_users) + 1,))
    batch = source.batch(7)
    assert (batch.inputs.shape, batch.inputs.dtype) == ((7, 3), torch.float32)
    assert (batch.targets.shape, batch.targets.dtype) == ((7,), torch.int64)


def test_every_row_is_in_one_part_with_its_own_label(path):
    parts = read_parts(open_table(path))
    row_numbers = find_row_numbers(parts)
    assert sorted(np.concatenate(list(row_numbers.values()))) == list(range(300))
    for name, rows in parts.items():
        assert [int(label) for label in rows[:, -1]] == [
            make_log()[i][0] for i in row_numbers[name]
        ]
        assert list(row_numbers[name]) == sorted(row_numbers[name])  # in the order of the file
    assert [len(parts[name]) / 300 for name in parts] == pytest.approx([0.8, 0.1, 0.1], abs=0.06)


def test_dense_columns_are_normalised_on_the_training_part_and_counts_take_a_logarithm(path):
    parts = read_parts(open_table(path))
    row_numbers = find_row_numbers(parts)
    prices = np.array([price for _, _, price, _ in make_log()])
    logs_of_counts = np.array([log1p(count) for _, _, _, count in make_log()])
    for column, values in enumerate([prices, logs_of_counts]):
        mean = np.mean(values[row_numbers["train"]])
        std = np.std(values[row_numbers["train"]])
        for name, rows in parts.items():
            expected = (values[row_numbers[name]] - mean) / std
            assert rows[:, column] == pytest.approx(expected, abs=1e-5)


def read_user_numbers(parts, users):
    """Return the pairs of a user and its encoded number in all rows; `users` has one per row."""
    row_numbers = find_row_numbers(parts)
    pairs = set()
    for name, rows in parts.items():
        for row_number, user_number in zip(row_numbers[name], rows[:, 2], strict=True):
            pairs.add((users[row_number], int(user_number)))
    return pairs


def test_identifiers_are_numbered_if_they_are_frequent_in_training_and_zero_otherwise(path):
    users = [row[1] for row in make_log()]
    for floor in (1, 2, 5):
        source = open_table(path, f"?floor={floor}")
        parts = read_parts(source)
        row_numbers = find_row_numbers(parts)
        counts = Counter(users[i] for i in row_numbers["train"])
        numbers = dict(read_user_numbers(parts, users))
        frequent_users = {user for user in numbers if counts[user] >= floor}
        assert {user for user, number in numbers.items() if number > 0} == frequent_users
        expected = list(range(1, len(frequent_users) + 1))
        assert sorted(numbers[user] for user in frequent_users) == expected
        assert source.task.vocabularies == (len(frequent_users) + 1,)
    assert any(counts[user] == 0 for user in numbers)  # a user that is not in the training part


def test_a_column_with_too_many_identifiers_is_hashed_and_the_card_mentions_it(path):
    source = open_table(path, "?hash=8")
    pairs = read_user_numbers(read_parts(source), [row[1] for row in make_log()])
    users = {user for user, _ in pairs}
    assert len(pairs) == len(users) > 8  # one number per user
    assert {number for _, number in pairs} == set(range(8))
    assert source.task.vocabularies == (8,)
    (row,) = [row for row in source.card().rows if row["column"] == "user"]
    assert row["treatment"] == "hashed into 8"
    assert str(row["distinct"]).endswith("or more")


def test_counting_stops_if_a_column_has_too_many_identifiers(monkeypatch):
    """More than the limit of a thousand: the counts are dropped."""
    counter = _survey.IdentifierCounter(limit=1000)
    for start in range(0, 100_000, 10_000):
        counter.add(
            pa.array([f"user {i}" for i in range(start, start + 10_000)]), np.ones(10_000, bool)
        )
    assert counter.is_over_limit
    assert 1000 < counter.distinct < 100_000
    assert [len(array) for array in counter.merge()] == [0, 0]


def test_counts_of_many_blocks_add_up(monkeypatch):
    counter = _survey.IdentifierCounter(limit=100_000)
    expected = Counter[str]()
    rng = np.random.default_rng(0)
    for _ in range(8):
        users = [f"user {i}" for i in rng.zipf(1.3, 20_000) % 50_000]
        in_training = rng.random(20_000) < 0.5
        counter.add(pa.array(users), in_training)
        expected.update(np.array(users)[in_training].tolist())
    hashes, counts = counter.merge()
    assert sorted(counts) == sorted(expected.values())
    assert (np.diff(hashes.astype(object)) > 0).all()


def test_statistics_of_many_blocks_equal_those_of_all_values():
    values = np.random.default_rng(0).normal(1e6, 3.0, 5000)
    statistics = _survey.RunningStatistics(use_log=False)
    for block in np.split(values, [1, 2, 500, 4000]):
        statistics.add(pa.array(block), np.ones(len(block), bool))
    assert statistics.mean == pytest.approx(values.mean(), rel=1e-9)
    assert statistics.std == pytest.approx(values.std(), rel=1e-9)


def test_a_missing_number_is_the_mean_and_a_missing_identifier_is_an_identifier(tmp_path):
    rows = []
    for i, (click, user, price, count) in enumerate(make_log()):
        rows.append((click, "" if i % 3 == 0 else user, price, "" if i % 2 else count))
    source = open_table(write_csv(tmp_path / "holes.csv", format_rows(rows)))
    parts = read_parts(source)
    row_numbers = find_row_numbers(parts)
    numbers = dict(read_user_numbers(parts, [row[1] for row in rows]))
    assert numbers[""] > 0
    assert [number for user, number in numbers.items() if number == numbers[""]] == [numbers[""]]
    for name in parts:
        is_missing = row_numbers[name] % 2 == 1
        assert (parts[name][is_missing, 1] == 0).all()
    missing = {row["column"]: row["missing"] for row in source.card().rows}
    assert missing == {"price": 0, "count": 150, "user": 100}


@pytest.mark.parametrize("dated", [False, True])
def test_a_split_by_time_tests_on_the_last_rows_and_hides_the_time(tmp_path, dated):
    hours = np.random.default_rng(0).permutation(300)
    rows = []
    for row, hour in zip(make_log(), hours, strict=True):
        text = f"2014-10-{1 + hour // 24:02d}T{hour % 24:02d}:00:00Z" if dated else str(hour)
        rows.append((*row, text))
    path = write_csv(tmp_path / "timed.csv", format_rows(rows), HEADER + ",hour")
    source = open_table(path, "?time=hour")
    row_numbers = find_row_numbers(read_parts(source))
    assert sorted(hours[row_numbers["train"]]) == list(range(240))
    assert sorted(hours[row_numbers["val"]]) == list(range(240, 270))
    assert sorted(hours[row_numbers["test"]]) == list(range(270, 300))
    assert source.task.input_shape == (3,)
    assert "hour: dropped: it orders the split" in list_problems(source.card())


@pytest.mark.parametrize(
    ("name", "template", "looks_like_date"),
    [
        ("day", "2014-10-{:02d}", True),
        ("seen", "2014-10-21T07:{:02d}:00Z", True),
        ("event_timestamp", "14139{:02d}", True),  # by its name
        ("update", "{}", False),
        ("words", "2014-10-21 or {}", False),
    ],
)
def test_the_card_of_a_table_with_dates_proposes_to_split_by_them(
    tmp_path, name, template, looks_like_date
):
    rows = [(*row, template.format(1 + i % 28)) for i, row in enumerate(make_log())]
    path = write_csv(tmp_path / "dated.csv", format_rows(rows), f"{HEADER},{name}")
    proposed = open_table(path).card().facts.get("proposed", "")
    proposal = f"time={name} after the ? of --data ({name} looks like a date"
    assert proposed.startswith(proposal) == looks_like_date
    if looks_like_date:
        assert "proposed" not in open_table(path, f"?time={name}").card().facts
        assert "proposed" not in open_table(path, f"?drop={name}").card().facts
    else:
        assert not proposed


def test_rows_of_equal_times_keep_the_order_of_the_file(tmp_path):
    rows = [(*row, 7) for row in make_log()]
    path = write_csv(tmp_path / "same.csv", format_rows(rows), HEADER + ",hour")
    row_numbers = find_row_numbers(read_parts(open_table(path, "?time=hour")))
    assert list(row_numbers["test"]) == list(range(270, 300))


# ---------------------------------------------------------------------------------------------- kinds of columns


def test_columns_are_inferred_from_their_values_and_names(tmp_path):
    header = "label,text,number,count,user_id,itemID,bid,code,empty,same"
    rows = [
        (i % 2, f"t{i % 5}", i / 7, i * i, i // 3, i // 4, i // 2, i % 4, "", 1) for i in range(200)
    ]
    card = open_table(write_csv(tmp_path / "kinds.csv", format_rows(rows), header)).card()
    kinds = {row["column"]: row["kind"] for row in card.rows}
    dense = ["number", "count", "bid"]
    identifiers = ["text", "user_id", "itemID", "code"]
    assert kinds == dict.fromkeys(dense, "dense") | dict.fromkeys(identifiers, "identifiers")
    # It is odd where the label is 1.
    leak = "code: predicts the label almost perfectly, so it may be a leak; to leave it out, write drop=code"
    assert list_problems(card) == [
        leak,
        "empty: dropped: one value only",
        "same: dropped: one value only",
    ]
    logs = {row["column"] for row in card.rows if row["treatment"].startswith("log")}
    assert logs == {"count", "bid"}


def test_options_of_the_user_override_what_is_inferred(path):
    source = open_table(path, "?label=click&categorical=count&drop=user&log=all&floor=1")
    assert [(row["column"], row["kind"]) for row in source.card().rows] == [
        ("price", "dense"),
        ("count", "identifiers"),
    ]
    assert source.card().rows[0]["treatment"].startswith("log")
    assert "user: dropped: named in drop" in list_problems(source.card())


def test_a_threshold_makes_a_label_of_a_number(path):
    parts = read_parts(open_table(path, "?label=count&above=499.5&drop=click"))
    row_numbers = find_row_numbers(parts)
    for name, rows in parts.items():
        assert [bool(label) for label in rows[:, -1]] == [
            make_log()[i][3] > 499.5 for i in row_numbers[name]
        ]


@pytest.mark.parametrize("words", [("no", "yes"), ("False", "True"), ("0.0", "1.0"), (" 0", "1 ")])
def test_two_words_can_be_the_label(tmp_path, words):
    rows = [(words[r[0]], *r[1:]) for r in make_log()]
    parts = read_parts(open_table(write_csv(tmp_path / "words.csv", format_rows(rows))))
    assert sum(int(rows[:, -1].sum()) for rows in parts.values()) == sum(r[0] for r in make_log())


@pytest.mark.parametrize("option", ["comma", ","])
def test_numbers_with_a_decimal_comma_are_read_like_those_with_a_point(tmp_path, option):
    """Also in the label, in the time and in identifiers: all rows are equal."""
    header = "click;user;price;level;late"
    rows = [f"{r[0]}.0;{r[1]};{r[2]};{r[3] % 4}.5;{299.5 - i}" for i, r in enumerate(make_log())]
    plain = open_table(
        write_csv(tmp_path / "point.csv", rows, header), "?time=late&categorical=level"
    )
    commas = write_csv(tmp_path / "comma.csv", [row.replace(".", ",") for row in rows], header)
    source = open_table(commas, f"?time=late&categorical=level&decimal={option}")
    assert source.task.vocabularies == plain.task.vocabularies
    assert (source.card().problems, source.schema.decimal) == (plain.card().problems, ",")
    for name, rows_of_part in read_parts(plain).items():
        assert np.array_equal(read_parts(source)[name], rows_of_part)


def test_with_decimal_commas_a_point_may_be_decimal_too_but_does_not_separate_thousands():
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
    ("template", "looks_like_number"),
    [
        ("{0},{1:02d}", True),
        ("{0},{1}e-2", True),
        ("1,{1:03d}", False),  # may be thousands
        ("{0},{1},5", False),
        ("{0}.{1}", False),
        ("{0}", False),
    ],
)
def test_texts_that_look_like_numbers_with_a_decimal_comma_are_reported(
    tmp_path, template, looks_like_number
):
    """Not if the user declares the column as identifiers."""
    rows = [f"{r[0]};{r[1]};{r[2]};{template.format(i % 30, i)}" for i, r in enumerate(make_log())]
    path = write_csv(tmp_path / "euro.csv", rows, "click;user;price;sum")
    advice = "sum: looks like numbers with a decimal comma; if it is, write decimal=comma"
    assert (advice in list_problems(open_table(path).card())) == looks_like_number
    assert advice not in list_problems(open_table(path, "?categorical=sum&floor=1").card())
    if looks_like_number:
        with pytest.raises(
            UsageError,
            match=r"100 % of the values of sum are text, such as .*; it looks like .* decimal=comma",
        ):
            open_table(path, "?dense=sum")


def test_options_may_name_columns_with_commas_and_ampersands(tmp_path):
    rows = [(f'"{r[1]}"', *r[::2], r[3]) for r in make_log()]
    path = write_csv(tmp_path / "names.csv", format_rows(rows), '"a,b",R&D,price,count')
    source = open_table(path, "?label=R%26D&drop=a%2Cb")
    assert [row["column"] for row in source.card().rows] == ["price", "count"]


def test_options_may_name_any_number_of_columns(tmp_path):
    many = [f"a_column_of_a_long_name_{i}" for i in range(20)]
    rows = [(*r, *range(i, i + 20)) for i, r in enumerate(make_log())]
    path = write_csv(tmp_path / "wide.csv", format_rows(rows), ",".join([HEADER, *many]))
    source = open_table(path, f"?label=click&drop={','.join(many)}")
    assert [row["column"] for row in source.card().rows] == ["price", "count", "user"]


@pytest.mark.parametrize(
    ("clicks", "caution"),
    [
        (30, ""),
        (29, "of 100 test rows only 29 have the label 1, so the AUC is unreliable"),
        (71, "of 100 test rows only 29 have the label 0, so the AUC is unreliable"),
        (0, "of 100 test rows none has the label 1, so there is no AUC"),
    ],
)
def test_the_card_warns_of_too_few_test_rows_of_a_class(tmp_path, clicks, caution):
    """The last 100 of 1,000 rows are the test part; the others have enough rows of both classes."""
    rows = [(i % 2 if i < 900 else int(i < 900 + clicks), f"u{i % 7}", i) for i in range(1000)]
    path = write_csv(tmp_path / "rare.csv", format_rows(rows), "click,user,hour")
    assert open_table(path, "?time=hour").card().facts.get("caution", "") == caution


# --------------------------------------------------------------------------------------------------- files and blocks


def test_rows_do_not_depend_on_the_size_of_blocks(path, monkeypatch, tmp_path):
    whole = read_parts(open_table(path))
    monkeypatch.setattr(_reader, "BLOCK_BYTES", 500)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "other"))
    blocks = [block for block, _ in _reader.open_csv(path).read_blocks(_reader.BadRows())]
    assert len(blocks) > 5
    for name, rows in read_parts(open_table(path)).items():
        assert rows == pytest.approx(whole[name], abs=1e-5)


def test_a_parquet_file_gives_the_same_rows_as_the_csv_file(path, tmp_path):
    names = HEADER.split(",")
    columns = {name: [row[i] for row in make_log()] for i, name in enumerate(names)}
    columns |= {
        "user": pa.array(columns["user"]).dictionary_encode(),
        "click": [bool(c) for c in columns["click"]],
    }
    pq.write_table(
        pa.table({**columns, "list": [[1]] * 300}), tmp_path / "log.parquet", row_group_size=70
    )
    source = load_data(f"parquet:{tmp_path}/log.parquet", ANY)
    assert source.task.dataset == "parquet:log.parquet"
    assert "list: dropped: lists and structures are not read" in list_problems(source.card())
    for name, rows in read_parts(open_table(path)).items():
        assert read_parts(source)[name] == pytest.approx(rows, abs=1e-6)


def test_timestamps_of_a_parquet_file_are_numbers_or_identifiers_and_durations_are_not_read(
    tmp_path,
):
    """Timestamps of any unit: row i is i hours after 1970.

    The column `day` has the value i % 3 days; frequent values make it a column of identifiers.
    """
    rows = {"click": [r[0] for r in make_log()], "price": [r[2] for r in make_log()]}
    for unit, ticks in {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}.items():
        rows[f"at_{unit}"] = pa.array([i * 3600 * ticks for i in range(300)], pa.timestamp(unit))
    rows["day"] = pa.array([i % 3 for i in range(300)], pa.date32())
    rows |= {
        "clock": pa.array(range(300), pa.time32("s")),
        "took": pa.array(range(300), pa.duration("s")),
    }
    pq.write_table(pa.table(rows), tmp_path / "log.parquet")
    source = load_data(f"parquet:{tmp_path}/log.parquet?log=none", ANY)
    parts = read_parts(source)
    for name, row_numbers in find_row_numbers(parts).items():
        seconds = [column.mean / 10**6 for column in source.schema.dense[1:]]
        hours = (row_numbers - seconds[0] / 3600) * 3600 * 10**6 / source.schema.dense[1].std
        assert seconds == pytest.approx([seconds[0]] * 4)
        assert parts[name][:, 1:5] == pytest.approx(np.stack([hours] * 4, axis=1), abs=1e-5)
        numbers = {
            int(row % 3): int(number)
            for row, number in zip(row_numbers, parts[name][:, 5], strict=True)
        }
        assert [numbers[int(row % 3)] for row in row_numbers] == list(parts[name][:, 5])
        assert sorted(numbers.values()) == [1, 2, 3]
    assert list_problems(source.card()) == [
        f"{name}: dropped: times of day and durations are not read" for name in ("clock", "took")
    ]
    assert source.card().rows[1]["treatment"].startswith("microseconds since 1970, mean")


def test_booleans_are_not_numbers_in_csv_and_parquet_files(tmp_path):
    truth = [i % 3 > 0 for i in range(300)]
    pq.write_table(
        pa.table({"click": [r[0] for r in make_log()], "flag": truth}), tmp_path / "log.parquet"
    )
    path = write_csv(
        tmp_path / "log.csv",
        format_rows([(r[0], t) for r, t in zip(make_log(), truth, strict=True)]),
        "click,flag",
    )
    for data in (f"csv:{path}", f"parquet:{tmp_path}/log.parquet"):
        with pytest.raises(
            UsageError, match=r"100 % of the values of flag are text, such as .* categorical=flag"
        ):
            load_data(f"{data}?dense=flag", ANY)


@pytest.mark.parametrize("separator", [";", "\t", "|"])
def test_other_separators_are_recognised(path, tmp_path, separator):
    other = tmp_path / "other.csv"
    other.write_text(path.read_text().replace(",", separator))
    for name, rows in read_parts(open_table(path)).items():
        assert np.array_equal(read_parts(open_table(other))[name], rows)


def test_a_table_is_encoded_once_and_again_when_the_file_or_the_options_change(
    path, cache, monkeypatch
):
    first = open_table(path)
    (folder,) = cache.iterdir()
    written_at = (folder / "train").stat().st_mtime_ns
    assert torch.equal(open_table(path).batch(9).inputs, first.batch(9).inputs)
    assert [*cache.iterdir()] == [folder]
    assert (folder / "train").stat().st_mtime_ns == written_at
    open_table(path, "?floor=1")
    assert len([*cache.iterdir()]) == 2
    write_csv(path, format_rows(make_log(200)))
    assert sum(map(len, open_table(path).parts.values())) == 200
    assert len([*cache.iterdir()]) == 3


def test_a_table_that_cannot_be_encoded_leaves_no_files(tmp_path, cache):
    with pytest.raises(UsageError):
        open_table(write_csv(tmp_path / "one.csv", [f"1,u{i % 3},{i}.5,{i}" for i in range(100)]))
    assert not cache.exists() or not [*cache.iterdir()]


# ------------------------------------------------------------------------------------------------------------ batches


def test_the_seed_determines_the_batch_and_a_small_one_is_the_head_of_a_large_one(path):
    source = open_table(path)
    small = source.batch(5, seed=1)
    large = source.batch(20, seed=1)
    other = source.batch(5, seed=2)
    assert torch.equal(small.inputs, large.inputs[:5])
    assert not torch.equal(small.inputs, other.inputs)
    train = {row[:-1].tobytes() for row in read_parts(source)["train"]}
    assert all(row.tobytes() in train for row in source.batch(400).inputs.numpy())
    assert len(source.batch(400)) == len(train)


def test_batches_contain_every_row_once_in_the_order_of_the_generator(path):
    part = open_table(path).parts["train"]
    passes = [
        torch.cat(
            [batch.inputs[:, 0] for batch in part.batches(50, torch.Generator().manual_seed(seed))]
        )
        for seed in (1, 1, 2)
    ]
    plain = torch.cat([batch.inputs[:, 0] for batch in part.batches(50)])
    assert torch.equal(passes[0], passes[1])
    assert not torch.equal(passes[0], passes[2])
    assert torch.equal(passes[0].sort().values, plain)  # prices grow with the row number
    assert torch.equal(passes[2].sort().values, plain)
    assert [len(batch) for batch in part.batches(100)][:-1] == [100] * (len(part) // 100)
