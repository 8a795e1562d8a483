// The pages, by their paths below /ui/.
import { Overview } from './pages/overview.js';
import { Tasks } from './pages/tasks.js';
import { NewTask } from './pages/newtask.js';
import { Task } from './pages/task.js';
import { Schedules } from './pages/schedules.js';
import { ScheduleEditor } from './pages/scheduleeditor.js';
import { Schedule } from './pages/schedule.js';
import { Queues } from './pages/queues.js';
import { Queue } from './pages/queue.js';
import { Dead } from './pages/dead.js';
import { Events } from './pages/events.js';
import { Cluster } from './pages/cluster.js';
import { Operations } from './pages/operations.js';
import { Operation } from './pages/operation.js';
import { Keys } from './pages/keys.js';
import { Namespaces } from './pages/namespaces.js';
import { Audit } from './pages/audit.js';

export const pages = [
  ['', Overview],
  ['tasks', Tasks],
  ['tasks/:id', Task],
  ['new/task', NewTask],
  ['schedules', Schedules],
  ['new/schedule', ScheduleEditor],
  ['schedules/:id', Schedule],
  ['schedules/:id/edit', ScheduleEditor],
  ['queues', Queues],
  ['queues/:name', Queue],
  ['dead', Dead],
  ['events', Events],
  ['cluster', Cluster],
  ['operations', Operations],
  ['operations/:id', Operation],
  ['keys', Keys],
  ['namespaces', Namespaces],
  ['audit', Audit],
];
