// Holds the types and openapi.yaml together: tsc fails if a name of one is missing in the other.
import type * as ours from "../src/types.js";
import type { components } from "./openapi.js";

type Schemas = components["schemas"];

type Camel<S extends string> = S extends `${infer A}_${infer B}` ? `${A}${Capitalize<Camel<B>>}` : S;
type Names<T> = T extends unknown ? { [K in keyof T]-?: K extends string ? Camel<K> : never }[keyof T] : never;
/** All names of a union's members. */
type Own<T> = T extends unknown ? keyof T : never;

type Same<A, B> = [A] extends [B] ? ([B] extends [A] ? true : { missing: Exclude<B, A> }) : { extra: Exclude<A, B> };
const holds = <T extends true>(): T => true as T;

holds<Same<Own<ours.NewTask>, Names<Schemas["TaskRequest"]> | "id">>();
holds<Same<keyof ours.Task, Names<Schemas["Task"]>>>();
holds<Same<keyof ours.Target, Names<Schemas["Target"]>>>();
holds<Same<keyof ours.Auth, Names<Schemas["Auth"]>>>();
holds<Same<keyof NonNullable<ours.Auth["jwt"]>, keyof NonNullable<Schemas["Auth"]["jwt"]>>>();
holds<Same<keyof ours.Retry, Names<Schemas["Retry"]>>>();
holds<Same<keyof ours.Window, Names<Schemas["Window"]>>>();
holds<Same<Own<ours.FollowUp>, Names<Schemas["FollowUp"]>>>();
holds<Same<keyof ours.TaskOutcome, keyof Schemas["TaskOutcome"]>>();
holds<Same<keyof ours.LeasedTask, Names<Schemas["LeasedTask"]>>>();
holds<Same<Own<ours.TaskPatch>, Names<Schemas["TaskPatch"]>>>();
holds<Same<Own<ours.Touch>, Names<Schemas["Touch"]>>>();
holds<Same<keyof ours.QueuePolicy | "queue", Names<Schemas["QueueRequest"]>>>();
holds<Same<keyof ours.Queue, Names<Schemas["Queue"]>>>();
holds<Same<keyof ours.QueueCounts, Names<Schemas["QueueCounts"]>>>();
holds<Same<keyof ours.NewSchedule | "id", Names<Schemas["ScheduleRequest"]>>>();
holds<Same<keyof ours.Schedule, Names<Schemas["Schedule"]>>>();
holds<Same<Own<ours.Repeat>, Names<Schemas["Repeat"]>>>();
holds<Same<keyof ours.Occurrences["last"][number], Names<Schemas["Occurrences"]["last"][number]>>>();
holds<Same<keyof ours.Preview, Names<Schemas["Preview"]>>>();
holds<Same<keyof ours.TaskEvent, Names<Schemas["Event"]>>>();
holds<Same<keyof ours.TaskHistory, Names<Schemas["TaskHistory"]>>>();
holds<Same<keyof ours.Settlement, Names<Schemas["Settle"]>>>();
holds<Same<keyof ours.SettleResult, Names<Schemas["SettleResult"]>>>();
holds<Same<keyof ours.BatchResult, Names<Schemas["BatchAnswer"]>>>();
holds<Same<keyof ours.Problem, Names<Schemas["Problem"]>>>();
holds<Same<Own<ours.NewOperation> | "dryRun", Names<Schemas["BulkOperation"]>>>();
holds<Same<`urn:belfry:problem:${ours.ProblemType}`, Schemas["Problem"]["type"]>>();
holds<Same<ours.TaskState, Schemas["State"]>>();
holds<Same<ours.Outcome, Schemas["Outcome"]>>();
holds<Same<ours.EventType, Schemas["Event"]["type"]>>();
holds<Same<Exclude<keyof ours.Operation, never>, Extract<keyof ours.Operation, Names<Schemas["Operation"]>>>>();

// Nonsense is no task.
// @ts-expect-error two times of one task
const two: ours.NewTask = { fireAt: new Date(), delay: "1h" };
// @ts-expect-error no time at all
const none: ours.NewTask = { id: "a" };
// @ts-expect-error no duration
const span: ours.NewTask = { delay: "soon" };
// @ts-expect-error two payloads
const payloads: ours.NewTask = { delay: "1h", payload: 1, payloadBase64: "" };
// @ts-expect-error two rules of one schedule
const rules: ours.Repeat = { cron: ["@daily"], every: "1h" };
// @ts-expect-error two changes of the payload
const changes: ours.Touch = { payload: 1, append: [1] };
void [two, none, span, payloads, rules, changes];
