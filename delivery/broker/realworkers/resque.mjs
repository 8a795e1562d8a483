// A worker of node-resque, with a job that prints what it was given.
import { Worker } from "node-resque";

const { hostname: host, port } = new URL(process.env.REDIS_URL);
const connection = { pkg: "ioredis", host, port: Number(port), database: 0, namespace: "resque" };
const jobs = { closeOrder: { perform: async (order, id) => console.log(`closed ${order} ${id}`) } };
const worker = new Worker({ connection, queues: ["default"], timeout: 100 }, jobs);
worker.on("error", (error) => console.error(error));
worker.on("failure", (queue, job, error) => console.error(error));
await worker.connect();
await worker.start();
console.log("working");
