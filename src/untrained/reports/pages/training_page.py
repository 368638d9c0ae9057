"""The page of a training that is not part of a search."""

from untrained.reports.pages.document import (
    make_command_section,
    make_document,
    make_header,
    make_settings_section,
)
from untrained.reports.pages.html import make_copyable, make_section
from untrained.reports.pages.training_sections import (
    list_training_settings,
    make_training_headline,
    make_training_sections,
)
from untrained.training.result import TrainingResult


def render_training_page(training: TrainingResult) -> str:
    """Return the whole page."""
    title = f"Training on {training.key.data}"
    headline = make_training_headline(training)
    sections = [
        make_header("training report", training.made_on, title, headline),
        make_section("Network", make_copyable(training.key.arch)),
        make_training_sections(training),
        make_settings_section(list_training_settings(training), training.versions),
    ]
    # A module that was passed from Python has no command.
    if training.command:
        note = (
            "Resumes an interrupted training. Repeating a finished training gives the same weights "
            "on a CPU, unless the time was limited."
        )
        sections.append(make_command_section(training.command, note))
    return make_document(title, headline, sections)
