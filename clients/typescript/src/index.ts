export { Belfry, type Operations, type Queues, type Schedules } from "./client.js";
export * from "./errors.js";
export type { CallOptions, Logger, Options } from "./transport.js";
export type * from "./types.js";
