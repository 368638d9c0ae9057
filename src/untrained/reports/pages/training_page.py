"""The page of `untrained train`, where the network does not come from a run folder. Reads a `Trained`."""

from untrained.reports.pages.document import again, document, header, settings
from untrained.reports.pages.html import copyable, section
from untrained.reports.pages.training_sections import asked, headline, trained
from untrained.training.trained import Trained


def render(found: Trained) -> str:
    """The whole page."""
    title = f"{found.asked.space or found.asked.arch} on {found.asked.data}"
    return document(
        title,
        headline(found),
        [
            header("training report", found.made_on, title, headline(found)),
            section("The network", copyable(found.asked.arch)),
            trained(found),
            settings(asked(found), found.versions),
            again(found.command, "Goes on where it was stopped, and gives the same weights again.")
            if found.command
            else "",
        ],
    )
