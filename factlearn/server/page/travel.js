// Time travel: the same question to the models after task 1, 2, ... n, so that forgetting is seen.

import { get } from "./api.js";
import { chart } from "./chart.js";
import { announce, byId, el } from "./dom.js";
import { store } from "./state.js";

const STEP = 1600; // milliseconds per stage when playing

let playing = 0;
let drawn = { key: null, answers: [] };
let turn = 0;

export const stageName = (stage) => (stage.moment ? `${stage.stage}: ${stage.moment}` : `task ${stage.stage}`);

/** The stage of an index that is shown: as chosen, otherwise its last. */
export function stageOf(info, chosen) {
  const stages = info?.stages ?? [];
  return stages.find(({ stage }) => stage === chosen) ?? stages.at(-1) ?? null;
}

/** Draw the slider and the curves; `question` is what is asked for and of which pictures, or empty. */
export async function showTravel(state, service, question) {
  const panel = byId("travel");
  const mine = ++turn;
  const info = service.indexes.find(({ name }) => name === state.index);
  const others = service.indexes.filter(({ name, ready }) => name !== state.index && ready);
  if ((info?.stages.length ?? 0) < 2 && !others.length) {
    return panel.replaceChildren(el("h2", {}, "Time travel"), el("p", { class: "hint" },
      `There is one model behind ${state.index}. Indexes named ${state.index}-after-task-1, -2, … beside it become its stages.`));
  }
  const names = [state.index, ...others.map(({ name }) => name).filter((name) => name === state.other)];
  const key = JSON.stringify([names, question]);
  if (!panel.firstChild || drawn.index !== state.index) panel.replaceChildren(controls(state, info, others), el("div", { class: "charts" }));
  else panel.firstChild.replaceWith(controls(state, info, others));
  drawn.index = state.index;
  if (drawn.key !== key) {
    const answers = await Promise.all(names.map((index) => get("/stages", { ...question, index })));
    if (mine !== turn) return; // another question has come meanwhile
    drawn = { key, index: state.index, answers };
  }
  const charts = panel.querySelector(".charts");
  const beside = charts.clientWidth > 900 && drawn.answers.length > 1;
  const width = Math.max(280, beside ? (charts.clientWidth - 20) / 2 : charts.clientWidth);
  charts.replaceChildren(...drawn.answers.map((answer) => curves(answer, service, store.get(), width)));
}

function controls(state, info, others) {
  const { stages } = info;
  const now = Math.max(0, stages.indexOf(stageOf(info, state.stage)));
  const said = stages[now] ? stageName(stages[now]) : "";
  const slider = el("input", {
    type: "range", id: "stage", min: 0, max: Math.max(0, stages.length - 1), value: now, "aria-valuetext": `after ${said}`,
    "aria-label": "Model after task", "data-keep": "stage", oninput: (event) => go(stages, Number(event.target.value)),
  });
  slider.value = now;
  const play = el("button", { type: "button", "data-keep": "play", onclick: () => (playing ? stop() : start(info)) }, playing ? "Stop" : "Play");
  const kept = document.activeElement?.dataset?.keep;
  if (kept) queueMicrotask(() => document.querySelector(`[data-keep="${kept}"]`)?.focus());
  return el("div", { class: "travel-head" },
    el("h2", {}, "Time travel"),
    stages.length > 1 ? el("div", { class: "stages" }, play,
      el("div", { class: "slider" }, slider, el("ol", { class: "ticks", "aria-hidden": "true" }, stages.map((stage, place) =>
        el("li", { class: place === now ? "here" : null }, stageName(stage)))))) : null,
    others.length ? el("label", {}, "Side by side with ", el("select", {
      id: "other", "data-keep": "other", onchange: (event) => store.set({ other: event.target.value }),
    }, el("option", { value: "" }, "nothing"), others.map(({ name }) => el("option", { value: name, selected: name === state.other }, name)))) : null,
  );
}

function go(stages, place) {
  const last = place === stages.length - 1;
  store.set({ stage: last ? null : stages[place].stage, cut: null }, { replace: true });
  announce(`The model after ${stageName(stages[place])}`);
}

function start({ stages }) {
  let place = 0;
  go(stages, place);
  playing = setInterval(() => (++place < stages.length ? go(stages, place) : stop()), STEP);
}

function stop() {
  clearInterval(playing);
  playing = 0;
  const button = document.querySelector('[data-keep="play"]');
  if (button) button.textContent = "Play";
}

function curves(answer, service, state, width) {
  const info = service.indexes.find(({ name }) => name === answer.index);
  const { stages } = answer;
  const shown = stageOf(info, state.stage);
  const tasks = [...new Set(stages.flatMap((stage) => Object.keys(stage.tasks)))];
  const series = [
    { name: "MAP, all tasks", kind: "whole", values: stages.map((stage) => stage.map_all) },
    ...tasks.map((task, place) => ({ name: `MAP, ${task}`, kind: `task task-${place % 6}`, values: stages.map((stage) => stage.tasks[task] ?? null) })),
  ];
  if (answer.query) {
    series.unshift({ name: `this query's average precision`, kind: "query", values: stages.map((stage) => stage.average_precision) });
  }
  const known = series.filter(({ values }) => values.some((value) => value !== null));
  const about = answer.query ? `${answer.query}: ${answer.relevant} of ${answer.images} labelled ${answer.over?.startsWith("split = 'test'") ? "test " : ""}pictures show it` : "MAP after each task";
  if (!known.length) return el("p", { class: "hint" }, `Nothing was measured for ${answer.index}.`);
  return chart(stages.map(stageName), known, stages.findIndex(({ stage }) => stage === shown?.stage), `${answer.index} — ${about}`, width);
}
