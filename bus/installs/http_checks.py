"""Warnings about an agent's hooks of type `http`, and problems in its settings that keep the hooks from running."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase

from bus.installs.base import InstallProblem
from bus.installs.http_hooks import TOKEN, HttpForm, HttpHooks
from bus.installs.settings_layers import Layer


def http_warnings(
    label: str, form: HttpForm, hooks: HttpHooks, events: tuple[str, ...], *, closed: bool
) -> Iterator[str]:
    """Warnings for the person who installs hooks of type `http` at these events."""
    if all(event in form.stay for event in events):
        yield f"none of these events can have a hook of type http in {label}"
        return
    reasons: dict[str, list[str]] = {}
    for event in events:
        if event in form.stay:
            reasons.setdefault(form.stay[event], []).append(event)
    for reason, those in reasons.items():
        yield f"{', '.join(those)} keep command hooks: {label} {reason}"
    if not form.failure:
        also = ", also of a hook that fails closed" if closed else ""
        yield (
            f"{label} has no failure option for hooks of type http: while the gateway cannot be reached every call goes "
            f"on{also}, and nothing is recorded; its hook commands do not have this gap"
        )
    elif not closed:
        yield "while the gateway cannot be reached every call goes on, and nothing is recorded (--fail-closed denies)"
    if hooks.base.startswith("http://") and not hooks.loopback:
        yield f"{hooks.base} is not encrypted: payloads and the token can be read on the way"


def http_problems(
    label: str, form: HttpForm, hooks: HttpHooks, layers: tuple[Layer, ...], urls: list[str]
) -> Iterator[InstallProblem]:
    """The settings of an agent that keep its hooks of type `http` from running, each with what to do about it."""
    allowed = _merged(layers, form.urls)
    if allowed is not None:
        refused = [url for url in urls if not any(fnmatchcase(url, pattern) for pattern in allowed)]
        if refused:
            name = ".".join(form.urls)
            what = f"`{name}` does not list {refused[0]}, so {label} does not run the hook"
            yield InstallProblem(what, f"add {hooks.base}/* to `{name}`")
    variables = _merged(layers, form.variables)
    if variables is not None and TOKEN not in variables:
        name = ".".join(form.variables)
        what = f"`{name}` does not list {TOKEN}, so {label} sends no token"
        yield InstallProblem(what, f"add {TOKEN} to `{name}`")
    if hooks.private:
        if form.private and any(layer.at(*form.private) is True for layer in layers):
            return
        switch = f"set `{'.'.join(form.private)}`, or " if form.private else ""
        what = f"{label} may refuse hooks at the private address {hooks.base}"
        yield InstallProblem(what, f"{switch}use a public name or a proxy on loopback", sure=False)


def _merged(layers: tuple[Layer, ...], names: tuple[str, ...]) -> list[str] | None:
    """The texts of the lists under these names in all layers; None if no layer has such a list."""
    lists = [found for layer in layers if names and isinstance(found := layer.at(*names), list)]
    return [item for found in lists for item in found if isinstance(item, str)] if lists else None
