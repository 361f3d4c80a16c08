"""A base of a sibling file; runtime imports of gobby.workflows."""
import os
import sys

sys.path.insert(0, os.path.dirname(__file__))
from gobby.workflows.actions import ActionContext
from gobby.workflows.definitions import WorkflowState

from base_plugin import BasePlugin


class FromBase(BasePlugin):
    name = "from-base"
    word = "base-no"

    def on_load(self, config: dict) -> None:
        super().on_load(config)
        self.register_action("who", self.who)

    async def who(self, context: ActionContext, **kwargs) -> dict:
        assert isinstance(context, ActionContext) and isinstance(context.state, WorkflowState)
        return {"who": context.session_id, "none": [context.db, context.session_manager, context.llm_service, context.transcript_processor, context.memory_manager]}
