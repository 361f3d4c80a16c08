"""Code in a language whose functions are not listed (Go, Rust, Java, C, Swift …): a scan for calls that delete or run."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

from bus.lazy.regex import lazy_regex
from bus.shell.inner import Arg, Inner
from bus.shell.programs.code_places import commands_in, deletes_unknown, opens_shell, places_in
from bus.shell.programs.service_calls import service_calls

_MOST: Final = 512
_LONGEST: Final = 64 * 1024
_DELETES: Final = lazy_regex(
    r"""\b(?:deleteDir|deleteRecursively|removeDirectoryRecursive|removePathForcibly|del_dir_r|delete-directory/files|delete-directory-tree|"""
    r"""delete-tree|file delete -force|removeItem|rm_rf!?|deleteTree|deleteAbsolute"""
    r"""|deleteFile|deleteFileAbsolute|RemoveAll|os\.Remove|syscall\.(?:Unlink|Rmdir)"""
    r"""|remove_dir_all|remove_file|remove_dir|remove_all|filesystem::remove|fs::remove"""
    r"""|Files\.delete\w*|FileUtils\.(?:delete\w*|forceDelete\w*|cleanDirectory|rm\w*)|deleteDirectory|deleteIfExists|walkFileTree"""
    r"""|unlink(?:at)?|rmdir|nftw|removeDir|removeFile|delete-directory|delete-file|delete-path|deleteSync|os\.rm\w*|rmtree|Sys\.(?:remove|rmdir))\b"""
    r"""|\b(?:Directory|File|DirectoryInfo)\b[^;\n]{0,60}\.Delete\(|\.(?:toFile\(\)|getFile\(\))?\.?delete\(\s*(?:recursive:\s*true\s*)?\)|File::delete|(?<![.\w:>])remove\(\s*["'&\w]"""
)
_SPAWNS: Final = lazy_regex(
    r"\b(?:execute|exec|execSync|system|sh|shell|run-program|callCommand|command|cmd|spawn|sys\.process|popen|Command|CommandContext|ProcessBuilder"
    r"|exec[lv]p?e?|posix_spawnp?|Process|ProcessStartInfo|Runtime|runCommand|startProcess|readProcess|callProcess|createProcess|execCmd|execProcess|execShellCmd"
    r"|executeShell|call-process|shell-command|Process\.run|Process\.start|Cmd|StartProcess|ShellExecute\w*|Unix\.\w+)\b"
)
_LITERAL: Final = lazy_regex(r'"((?:\\.|[^"\\])*)"' + r"|'((?:\\.|[^'\\\n])*)'")
_FORCED: Final = lazy_regex(r"\bfile delete -force (?:-- )?([^\s\]]+)|(?:^|[\[;\n])[ \t]*exec ([^\]\n;]+)")
_FETCHES: Final = lazy_regex(r"\bhttp\.Get\(|reqwest::|HttpClient|URL\(|URLSession|curl_easy_perform")


def other_calls(code: str) -> Iterator[Inner]:
    """The literals of a text that deletes or runs, as the commands of a shell that do the same."""
    if not code:
        return
    if len(code) > _LONGEST:
        yield Inner(unread=("rm",) if _DELETES.search(code) else ("",))
        return
    literals = [match[1] if match[1] is not None else match[2] for match in islice(_LITERAL.finditer(code), _MOST)]
    deletes = _DELETES.search(code)
    if deletes:
        after = _LITERAL.search(code, deletes.end())
        if after is not None and not code[deletes.end() : after.start()].strip(" \t(&:,path"):  # `RemoveAll("/etc")`
            yield Inner(argv=(Arg("rm"), Arg("-r"), Arg(after[1] if after[1] is not None else after[2])))
        elif "\n" not in code and literals:
            yield Inner(argv=(Arg("rm"), Arg("-r"), Arg(literals[-1])))
        if places := places_in(code):
            yield Inner(argv=tuple(map(Arg, ("rm", "-r", *places))))
    if _SPAWNS.search(code):
        if "\n" not in code:
            yield from (Inner(script=one) for one in literals if " " in one)
            if len(literals) > 1:
                yield Inner(argv=tuple(map(Arg, literals)))
        yield from commanded(code)
    for match in islice(_FORCED.finditer(code), _MOST):
        yield Inner(argv=(Arg("rm"), Arg("-r"), Arg(match[1]))) if match[1] else Inner(script=match[2])
    yield from service_calls(code)


def commanded(code: str) -> Iterator[Inner]:
    """The commands in literals of a text that runs something, as far as no call says which."""
    unknown = False
    for one in commands_in(code, printed=opens_shell(code)):
        unknown = unknown or (isinstance(one, str) and deletes_unknown(one))
        yield Inner(script=one) if isinstance(one, str) else Inner(argv=tuple(map(Arg, one)))
    if unknown and (places := places_in(code)):  # `"rm -rf " + folder`
        yield Inner(argv=tuple(map(Arg, ("rm", "-r", *places))))
