"""Tables and functions of the Postgres store: their layout, and how they are made.

Everything is in one schema of the database, by default `otolith`. Names, notes and holders are
UTF-8 in `bytea`: they may contain what `text` cannot (NUL), mean the same in a database of any
encoding, and sort as they do in Python. A zero-length hash in an argument stands for "absent".

    meta       one row: `otolith_format` and `functions` (versions), and what writers must know:
               `run` (number of the last collection; `run_until`: when its claim ends), `barrier`
               (a collection marks: log what is written), `sweep` (the run whose condemned objects
               count as absent; 0: none), `listen_until` (until when somebody listens)
    object     hash, data               data: a form byte, then the bytes (`objects.py`)
    ref        name, hash               hash is NULL once the ref is gone
    move       name, id, old, new,      the history of refs; ids of one ref ascend, because they
               time, note               are drawn while its row is locked
    fence      name, token, holder,     the highest token seen; a holder and when its lease ends,
               expires                  if the token belongs to a lease
    waiting    name, writer, until      the writer that last lost a race for a ref, for a moment
    tally      shard, objects, bytes    their sums are the usage; a writer adds to a row whose
                                        advisory lock is free, so writers do not wait
    fresh      run, hash                what writers wrote or needed while a collection marked
    condemned  run, hash                what a collection drops

Times are microseconds since 1970 by the server's clock.

Functions carry the format in their name. A later version of a function with the same arguments
replaces it in place, and older clients use it as well. A newer format gets new functions; clients
that do not find theirs report FormatTooNew.

`write_1` holds locks in one order: the gate (below), fences by name, refs by name, objects by hash,
condemned by hash, a tally, waiting by name. So writers never wait for each other in a circle. It
decides first, and changes something only when nothing can refuse the batch any more. If a single
swap is all that can still be refused, comparing and moving the ref is one statement. A writer that
lost a race is noted, and the next winner is told (`stores/turns.py`).

A server process plans each statement of a function once, and sets up each expression once for each
transaction. So the function has few of both where every commit passes.

The gate is an advisory lock of the transaction: writers share it, and whoever changes the row of
`meta` that they depend on has it alone, for milliseconds.
"""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg.sql import SQL, Composed, Identifier, Literal

from otolith.errors import FormatTooNew, NotAStore, StoreNotFound

FORMAT = 1
FUNCTIONS = 1
SHARDS = 64
_WAIT_MICROSECONDS = 100_000

_ELSEWHERE = "choose another schema with ?schema= in the URL"
_GATE_CLASS = int.from_bytes(b"otol", "big")

_TABLES = """
create table {s}.meta(
    otolith_format integer not null, functions integer not null,
    run bigint not null default 0, run_until bigint not null default 0,
    barrier boolean not null default false, sweep bigint not null default 0,
    listen_until bigint not null default 0);
create table {s}.object(hash bytea primary key, data bytea not null);
alter table {s}.object alter column data set storage external;
create table {s}.ref(name bytea primary key, hash bytea) with (fillfactor = 50);
create table {s}.move(
    name bytea not null, id bigint generated always as identity,
    old bytea, new bytea, time bigint not null, note bytea not null, primary key (name, id));
create table {s}.fence(
    name bytea primary key, token bigint not null,
    holder bytea, expires bigint not null default 0) with (fillfactor = 50);
create table {s}.tally(
    shard integer primary key, objects bigint not null default 0, bytes bigint not null default 0)
    with (fillfactor = 20);
create table {s}.waiting(
    name bytea primary key, writer bytea not null, until bigint not null) with (fillfactor = 50);
create table {s}.fresh(run bigint not null, hash bytea not null);
create table {s}.condemned(run bigint, hash bytea, primary key (run, hash));
insert into {s}.meta(otolith_format, functions) values ({format}, 0);
insert into {s}.tally(shard) select generate_series(0, {shards} - 1);
"""

_FUNCTIONS = """
create or replace function {s}.now_1() returns bigint language sql volatile as
    'select (extract(epoch from pg_catalog.clock_timestamp()) * 1000000)::bigint';

create or replace function {s}.stale_1(of_name bytea, by_writer bytea) returns bytea[]
language plpgsql as $$
declare
    actual bytea;
begin
    -- It leaves only locks and this row, which are nothing to wait for the disk for.
    perform set_config('synchronous_commit', 'off', true);
    select r.hash into actual from {s}.ref r where r.name = of_name;
    if by_writer <> '' then
        insert into {s}.waiting(name, writer, until)
            values (of_name, by_writer, {s}.now_1() + {wait})
            on conflict (name) do update set writer = excluded.writer, until = excluded.until;
    end if;
    return array['stale', of_name, actual];
end $$;

create or replace function {s}.write_1(
    names bytea[], olds bytea[], news bytea[], fences bytea[], tokens bigint[], needs bytea[],
    hashes bytea[], datas bytea[], at_time bigint, about bytea, quota bigint, fast boolean,
    by_writer bytea
) returns bytea[] language plpgsql as $$
declare
    state record;
    held {s}.fence;
    missing bytea;
    added bigint;
    added_bytes bigint;
    at_shard integer := pg_backend_pid() % {shards};
    decided boolean := cardinality(names) = 1 and cardinality(needs) = 0 and quota is null;
begin
    if pg_advisory_xact_lock_shared({gate}, {meta}::regclass::oid::integer)::text is null
        or current_setting('transaction_isolation') <> 'read committed'
        or fast <> (current_setting('synchronous_commit') = 'off') then
        if current_setting('transaction_isolation') <> 'read committed' then
            return array['isolation', convert_to(current_setting('transaction_isolation'), 'UTF8')];
        end if;
        perform set_config('synchronous_commit', case when fast then 'off' else 'on' end, true);
    end if;
    select m.run, m.barrier, m.sweep, m.listen_until, w.writer, w.until into state
        from {s}.meta m left join {s}.waiting w on w.name = names[1];

    for i in 1 .. cardinality(fences) loop
        select * into held from {s}.fence f where f.name = fences[i];
        if held.token >= tokens[i] then
            select * into held from {s}.fence f where f.name = fences[i] for share;
        else
            insert into {s}.fence(name, token) values (fences[i], 0) on conflict do nothing;
            select * into held from {s}.fence f where f.name = fences[i] for no key update;
        end if;
        if held.token > tokens[i] then
            return array['fenced', fences[i]];
        elsif held.token = tokens[i] and held.holder is not null
            and held.expires <= {s}.now_1() then
            return array['expired', fences[i]];
        end if;
    end loop;

    for i in 1 .. cardinality(names) loop
        if olds[i] = '' then
            insert into {s}.ref(name) values (names[i]) on conflict do nothing;
        end if;
        if olds[i] = news[i] then
            perform from {s}.ref r where r.name = names[i]
                and r.hash is not distinct from nullif(olds[i], '') for share;
        elsif not decided then
            perform from {s}.ref r where r.name = names[i]
                and r.hash is not distinct from nullif(olds[i], '') for no key update;
        else
            continue;
        end if;
        if not found then
            return {s}.stale_1(names[i], by_writer);
        end if;
    end loop;

    if cardinality(needs) > 0 then
        select n into missing from unnest(needs) n
            where not exists (select from {s}.object o where o.hash = n)
            or exists (select from {s}.condemned c where c.run = state.sweep and c.hash = n)
            limit 1;
        if found then
            return array['missing', missing];
        end if;
    end if;
    if quota is not null and cardinality(hashes) > 0 then
        select coalesce(sum(octet_length(u.hash) + octet_length(u.data)), 0) into added_bytes
            from unnest(hashes, datas) u(hash, data)
            where not exists (select from {s}.object o where o.hash = u.hash);
        if added_bytes > 0
            and added_bytes + (select sum(t.bytes) from {s}.tally t) > quota then
            return array['quota', convert_to(added_bytes::text, 'UTF8')];
        end if;
    end if;

    for i in 1 .. cardinality(names) loop
        if olds[i] <> news[i] then
            update {s}.ref r set hash = nullif(news[i], '') where r.name = names[i]
                and r.hash is not distinct from nullif(olds[i], '');
            if not found then  -- it is the only condition, so nothing has changed
                return {s}.stale_1(names[i], by_writer);
            end if;
            insert into {s}.move(name, old, new, time, note)
                values (names[i], nullif(olds[i], ''), nullif(news[i], ''), at_time, about);
            if state.listen_until > 0 and state.listen_until > {s}.now_1() then
                perform pg_notify({channel} || {meta}::regclass::oid, case
                    when octet_length(names[i]) < 3900 then encode(names[i], 'hex') else '' end);
            end if;
        end if;
    end loop;
    if cardinality(hashes) > 0 then
        with new as (
            insert into {s}.object(hash, data) select * from unnest(hashes, datas)
            on conflict do nothing returning octet_length(hash) + octet_length(data) as size)
        select count(*), sum(size) into added, added_bytes from new;
        if added > 0 then
            for i in 1 .. {shards} loop
                exit when pg_try_advisory_xact_lock({meta}::regclass::oid::integer, at_shard);
                at_shard := (at_shard + 1) % {shards};
            end loop;
            update {s}.tally t set objects = t.objects + added, bytes = t.bytes + added_bytes
                where t.shard = at_shard;
        end if;
        if state.sweep <> 0 then
            delete from {s}.condemned c using (
                select d.hash from {s}.condemned d
                where d.run = state.sweep and d.hash = any(hashes) order by d.hash for update) d
            where c.run = state.sweep and c.hash = d.hash;
        end if;
    end if;
    if state.barrier then
        insert into {s}.fresh(run, hash)
            select state.run, n from unnest(hashes || needs || olds || news) n where n <> '';
    end if;
    for i in 1 .. cardinality(fences) loop
        update {s}.fence f set token = tokens[i], holder = null, expires = 0
            where f.name = fences[i] and f.token < tokens[i];
    end loop;
    if state.until > {s}.now_1() then
        if state.writer <> by_writer then
            return array['landed', state.writer];
        end if;
        delete from {s}.waiting w where w.name = names[1] and w.writer = by_writer;
    end if;
    return null;
end $$;

create or replace function {s}.lease_1(of_name bytea, by_holder bytea, ttl bigint)
returns bigint[] language plpgsql as $$
declare
    held {s}.fence;
    present bigint;
begin
    insert into {s}.fence(name, token) values (of_name, 0) on conflict do nothing;
    select * into held from {s}.fence f where f.name = of_name for no key update;
    present := {s}.now_1();
    if held.holder is not null and held.expires > present then
        if held.holder <> by_holder then
            return null;
        end if;
    else
        held.token := held.token + 1;
    end if;
    update {s}.fence f set token = held.token, holder = by_holder, expires = present + ttl
        where f.name = of_name;
    return array[held.token, present + ttl];
end $$;

create or replace function {s}.sweep_1(of_run bigint, at_most integer)
returns bigint[] language plpgsql as $$
declare
    dropped bigint;
    freed bigint;
    entries bigint;
begin
    perform set_config('lock_timeout', '200ms', true);
    perform pg_advisory_xact_lock({gate}, {meta}::regclass::oid::integer);
    if not exists (select from {s}.meta m where m.sweep = of_run) then
        return null;
    end if;
    with entry as (
        delete from {s}.condemned c where c.run = of_run and c.hash in (
            select d.hash from {s}.condemned d where d.run = of_run order by d.hash limit at_most)
        returning c.hash),
    gone as (
        delete from {s}.object o using entry e where o.hash = e.hash
        returning octet_length(o.hash) + octet_length(o.data) as size)
    select (select count(*) from entry), (select count(*) from gone),
        (select coalesce(sum(size), 0) from gone) into entries, dropped, freed;
    update {s}.tally t set objects = t.objects - dropped, bytes = t.bytes - freed
        where t.shard = 0 and dropped > 0;
    return array[entries, dropped, freed];
end $$;

update {s}.meta set functions = {functions} where functions < {functions};
"""

_INSPECT = """
select to_regnamespace({name}) is not null,
    (select array_agg(c.relname::text) from pg_catalog.pg_class c
        where c.relnamespace = to_regnamespace({name}) and c.relkind in ('r', 'v', 'm', 'f', 'p')),
    exists (select from pg_catalog.pg_attribute a where a.attname = 'otolith_format'
        and a.attrelid = to_regclass({meta}))
"""


class StoreSchema:
    """The schema of one store: its statements with the name put in, and how it is made."""

    def __init__(self, name: str, place: str) -> None:
        self.name = name
        self._place = place
        quoted = '"' + name.replace('"', '""') + '"'
        self._parts: dict[str, Any] = {
            "s": Identifier(name),
            "name": Literal(quoted),
            "meta": Literal(f"{quoted}.meta"),
            "gate": Literal(_GATE_CLASS),
            "channel": Literal("otolith_"),
            "format": Literal(FORMAT),
            "functions": Literal(FUNCTIONS),
            "shards": Literal(SHARDS),
            "wait": Literal(_WAIT_MICROSECONDS),
        }

    def statement(self, text: str) -> bytes:
        """Return a statement of ours with the name of the schema in the place of `{s}`."""
        return self._composed(text).as_bytes(None)

    def _composed(self, text: str) -> Composed:
        # Only texts of this package come here; names are quoted by psycopg.
        return SQL(text).format(**self._parts)

    def open(self, connection: psycopg.Connection[Any], *, create: bool) -> None:
        """Check that the schema is a store, and make it one if it is empty.

        Raises:
            StoreNotFound: it is not there, and may not be made.
            NotAStore: somebody else made it.
            FormatTooNew: a newer otolith made it.
        """
        if self._is_ready(connection, create=create):
            return
        with connection.transaction():
            lock = "select pg_advisory_xact_lock({gate}, hashtext({name}))"
            connection.execute(self.statement(lock))
            if self._is_ready(connection, create=create):
                return  # another process was faster
            (exists, tables, _), *_ = connection.execute(self.statement(_INSPECT)).fetchall()
            if not exists:
                connection.execute(self.statement("create schema {s}"))
            if not tables:
                connection.execute(self.statement(_TABLES))
            connection.execute(self.statement(_FUNCTIONS))

    def _is_ready(self, connection: psycopg.Connection[Any], *, create: bool) -> bool:
        """Tell whether nothing has to be made."""
        (_, tables, is_ours), *_ = connection.execute(self.statement(_INSPECT)).fetchall()
        if not tables:
            if create:
                return False
            raise StoreNotFound(
                f"no store in schema {self.name} of {self._place}",
                hint="check the URL, or open it with create",
            )
        if not is_ours:
            raise NotAStore(
                f"schema {self.name} of {self._place} has tables of somebody else",
                hint=_ELSEWHERE,
            )
        query = self.statement("select otolith_format, functions from {s}.meta")
        rows = connection.execute(query).fetchall()
        if len(rows) != 1:
            raise NotAStore(
                f"schema {self.name} of {self._place} is not an otolith store", hint=_ELSEWHERE
            )
        (version, functions), *_ = rows
        if version > FORMAT:
            raise self.too_new(version)
        return bool(functions >= FUNCTIONS or not create)

    def too_new(self, version: int | str) -> FormatTooNew:
        """Return the error for a store that a newer otolith made."""
        return FormatTooNew(
            f"schema {self.name} of {self._place} has format {version}; "
            f"this otolith knows up to {FORMAT}",
            hint="upgrade otolith",
        )
