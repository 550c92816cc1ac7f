// Plays scripts with XState: each line of the input is {config, script}, each line of the output a record.
//
// The first argument is the folder that XState is installed in. A script is a list of
// {event}, {wait} in milliseconds, {done: id} and {fail: id} for services, each with the answers of the guards.
// A record is a list of [active leaves, status, context.n, actions] for the start and each item of the script;
// a step that does not come to rest ends it with "endless".

import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const require = createRequire(`${process.argv[2]}/`);
const { SimulatedClock, assign, createActor, createMachine, raise } = require("xstate");
const MAX_MICROSTEPS = 1000;
const TICK_MILLISECONDS = 10; // all delays are multiples of it, so that each timer fires at its own time

const service = {
  transition: (state, event) => {
    if (event.type === "finish") return { ...state, status: "done" };
    if (event.type === "break") return { ...state, status: "error", error: new Error("broken") };
    return state;
  },
  getInitialSnapshot: () => ({ status: "active", output: undefined, error: undefined }),
  getPersistedSnapshot: (snapshot) => snapshot,
};

function actionNames(config, found = new Set()) {
  for (const [key, value] of Object.entries(config)) {
    if (["actions", "entry", "exit"].includes(key)) for (const name of value) found.add(name);
    else if (value && typeof value === "object") actionNames(value, found);
  }
  return found;
}

function implementations(config, world) {
  const actions = {};
  for (const name of actionNames(config)) {
    const [verb, event] = name.split(":");
    if (verb === "raise") actions[name] = raise({ type: event });
    else if (verb === "count") actions[name] = assign({ n: ({ context }) => (context.n + 1) % 3 });
    else actions[name] = () => world.log.push(name);
  }
  const guards = Object.fromEntries(["g", "h"].map((name) => [name, () => world.truth[name]]));
  for (const n of [0, 1, 2]) guards[`n=${n}`] = ({ context }) => context.n === n;
  return { actions, guards, actors: { work: service } };
}

function play({ config, script }) {
  const world = { truth: { g: false, h: false }, log: [] };
  const clock = new SimulatedClock();
  const machine = createMachine({ ...config, options: { maxIterations: MAX_MICROSTEPS } }, implementations(config, world));
  const actor = createActor(machine, { clock, logger: () => {} });
  actor.subscribe({ error: () => {} });
  const record = [];
  const step = (work) => {
    world.log = [];
    work();
    const snapshot = actor.getSnapshot();
    if (snapshot.status === "error") return record.push("endless") && false;
    const leaves = snapshot._nodes.filter((node) => ["atomic", "final"].includes(node.type));
    const ids = leaves.sort((a, b) => a.order - b.order).map((node) => node.id);
    record.push([ids, snapshot.status === "active" ? "running" : snapshot.status, snapshot.context.n, world.log]);
    return snapshot.status === "active";
  };
  let goesOn = step(() => actor.start());
  for (const item of script) {
    if (!goesOn) break;
    world.truth = item.truth;
    goesOn = step(() => {
      if (item.event) actor.send({ type: item.event });
      for (let passed = 0; passed < (item.wait ?? 0); passed += TICK_MILLISECONDS) clock.increment(TICK_MILLISECONDS);
      if (item.done) actor.getSnapshot().children[item.done]?.send({ type: "finish" });
      if (item.fail) actor.getSnapshot().children[item.fail]?.send({ type: "break" });
    });
  }
  actor.stop();
  return record;
}

for await (const line of createInterface({ input: process.stdin })) {
  process.stdout.write(`${JSON.stringify(play(JSON.parse(line)))}\n`);
}
