"""What database statements destroy."""

from __future__ import annotations

import pytest

from bus.matching.statements import destroyed
from tests.support.rows import rows


@pytest.mark.req("X-09")
@rows(
    ("text", "what"),
    [
        ("DROP DATABASE app", {"database"}),
        ("drop schema public cascade;", {"database"}),
        ("select 1; Drop Table if exists users", {"table"}),
        ("TRUNCATE users", {"rows"}),
        ("begin; truncate table a, b; commit", {"rows"}),
        ("DELETE FROM users", {"rows"}),
        ('delete from "Users" returning id', {"rows"}),
        ("delete from users where 1=1", {"rows"}),
        ("delete from users where true;", {"rows"}),
        ("delete from users -- where id = 3", {"rows"}),
        ("delete from users; select * from x where id = 1", {"rows"}),
        ("UPDATE users SET admin = true", {"values"}),
        ("update users u set a = 'where' ", {"values"}),
        ("ALTER TABLE users DROP COLUMN email", {"column"}),
        ("alter table users drop email", {"column"}),
        ("--execute=DROP TABLE x", {"table"}),
        ("-edrop table x", {"table"}),
        ("explain analyze delete from users", {"rows"}),
        ("https://ch:8123/?query=TRUNCATE+TABLE+events", {"rows"}),
        ("q=DROP%20DATABASE%20x", {"database"}),
        ('{"sql": "delete from users"}', {"rows"}),
        ("drop table t; create table t(a int)", {"table"}),
        ("create table if not exists t(a int); drop table t", {"table"}),
        ("create temp table t as select 1; drop table if exists t", set()),
        ('{"title": "a note", "text": "no statement"}', set()),
        ("select 1", set()),
        ("delete from users where id = 3", set()),
        ("update users set a = 1 where id = 3", set()),
        ("insert into log values ('drop table x')", set()),
        ("select truncate(1.234, 1)", set()),
        ("-- drop table x\nselect 1", set()),
        ("/* drop table x */ select 1", set()),
        ("alter table users drop constraint users_pk", set()),
        ("insert into a values (1) on conflict do update set b = 1", set()),
        ("select * from a for update", set()),
        ("explain delete from users", set()),
        ("create table dropped (updated int)", set()),
        ("drop_table.sql", set()),
        ("git push --delete", set()),
    ],
)
def test_what_a_statement_destroys(text: str, what: set[str]) -> None:
    assert destroyed(text) == what
