package metamorphic

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// The verbs of steps that are not single calls. Others are the methods of HTTP.
const (
	readPages = "PAGES"  // reads all pages of a list
	leaseAll  = "LEASE"  // leases until the queue has no further task
	settle    = "SETTLE" // settles the last lease of a task
	bulk      = "BULK"   // begins a bulk operation, and waits for its end
	drain     = "DRAIN"  // fills the limited queue, and leases and acknowledges its tasks round after round
)

// step is one step of a history.
type step struct {
	verb, path string
	body       string
	key        string // idempotency key
	ifMatch    string // id of a task: the call names the revision that the task had when it was last answered
	ifAbsent   bool
	task       string // whose lease is settled
	at         int    // seconds after the start
}

func (s step) String() string {
	text := fmt.Sprintf("%ds %s %s", s.at, s.verb, s.path)
	for _, part := range []string{s.task, s.body} {
		if part != "" {
			text += " " + part
		}
	}
	if s.ifMatch != "" {
		text += " if its revision is still that of " + s.ifMatch
	}
	if s.ifAbsent {
		text += " if absent"
	}
	return text
}

// start is the instant at which a history begins. Every cluster is ready by then: a bubble begins half a minute before.
var start = time.Date(2000, 1, 1, 0, 0, 30, 0, time.UTC)

const (
	receiverAddr = "127.0.0.1:9000"
	// dueAt is the fraction of a second at which tasks come due, and callAt the one at which calls begin.
	dueAt, callAt = 50 * time.Millisecond, 500 * time.Millisecond
)

// The two namespaces of a history, by the beginning of a call's path.
var namespaces = []string{"/v1", "/v1/namespaces/other"}

// rules are the queues of a history: one is pushed, one pulled, and one pulled in order. A task that failed is tried
// again a tenth of a second away from the calls.
var rules = map[string]string{
	"hooks": `{"target":{"url":"http://` + receiverAddr + `/hook"},"retry":{"delays":["2.1s","3.1s"]},"keep_done":"25s"}`,
	"pull":  `{"retry":{"delays":["2.1s"]},"keep_done":"40s"}`,
	"steps": `{"fifo":true,"retry":{"delays":["1.1s"]}}`,
}

var queues = []string{"hooks", "pull", "steps"}

// The limited queue is pulled, and has steps of its own: which of its tasks are leased first depends on the shards.
const (
	limitedQueue = "limited"
	limitedTasks = 24 // enough for all shards
	limitedRule  = `{"max_in_flight":3}`
)

// history draws the steps of a history.
type history struct {
	*rand.Rand
	steps   []step
	changes []step // calls with a key, which a later step may repeat
	at      int
}

// draw draws a history with n random steps.
func draw(seed uint64, n int) []step {
	h := &history{Rand: rand.New(rand.NewPCG(seed, 0))}
	h.prepare()
	var kinds []func() step
	for _, k := range h.kinds() {
		for range k.weight {
			kinds = append(kinds, k.draw)
		}
	}
	for range n {
		h.add(kinds[h.IntN(len(kinds))](), 1+h.IntN(2))
	}
	h.conclude()
	return h.steps
}

// add appends a step and the seconds until the next one.
func (h *history) add(s step, pause int) {
	if s.at = h.at; s.key == "" {
		s.key = fmt.Sprint("key-", len(h.steps))
	}
	h.steps = append(h.steps, s)
	if strings.Contains(s.path, "/tasks/") && s.verb != "GET" {
		h.changes = append(h.changes, s)
	}
	h.at += pause
}

// prepare makes the namespace, the rules of the queues, tasks that lie far ahead, cancelled tasks, and schedules, so
// that every move of slots has some of each.
func (h *history) prepare() {
	h.add(step{verb: "PUT", path: namespaces[1], body: "{}"}, 1)
	for _, ns := range namespaces {
		for _, q := range queues {
			h.add(step{verb: "PUT", path: ns + "/queues/" + q, body: rules[q]}, 1)
		}
		h.add(step{verb: "PUT", path: ns + "/queues/" + limitedQueue, body: limitedRule}, 1)
		h.add(h.far(ns), 1)
		h.add(h.cancelled(ns), 1)
		for i := range schedules {
			h.add(step{verb: "PUT", path: fmt.Sprintf("%s/schedules/schedule-%d", ns, i),
				body: fmt.Sprintf(`{"repeat":{"every":"%ds","anchor":%q},"task":{%s}}`, 20+i, instant(0), h.spec())}, 1)
		}
	}
}

// cancelled is a batch that leaves tombstones for longer than the history lasts.
func (h *history) cancelled(ns string) step {
	var lines strings.Builder
	for i := range 50 {
		fmt.Fprintf(&lines, `{"op":"schedule","id":"cancelled-%[1]d","queue":%[2]q,"delay":"1h"}`+"\n"+
			`{"op":"cancel","id":"cancelled-%[1]d"}`+"\n", i, limitedQueue)
	}
	return step{verb: "POST", path: ns + "/batch", body: lines.String()}
}

// far is a batch of tasks that never come due. Bulk operations change them, and they fill lists.
func (h *history) far(ns string) step {
	var lines strings.Builder
	for i := range 150 {
		fmt.Fprintf(&lines, `{"op":"schedule","id":"far-%d","queue":"pull","fire_at":%q,"labels":{"lot":"%d"}}`+"\n",
			i, instant(3600+h.IntN(600)), h.IntN(4))
	}
	return step{verb: "POST", path: ns + "/batch", body: lines.String()}
}

// conclude reads everything once all that comes due within the next minute has done so. Then it drains the limited
// queues.
func (h *history) conclude() {
	h.at += 60
	for _, ns := range namespaces {
		for _, list := range []string{"/tasks?include=payload&limit=61", "/tasks?order=due&limit=17", "/schedules?limit=2"} {
			h.add(step{verb: readPages, path: ns + list}, 1)
		}
		for _, q := range queues {
			h.add(step{verb: "GET", path: ns + "/queues/" + q}, 1)
		}
		for i := range tasks {
			h.add(step{verb: "GET", path: fmt.Sprintf("%s/tasks/task-%d/history", ns, i)}, 0)
		}
	}
	for _, ns := range namespaces {
		h.at += 5
		h.add(h.drain(ns), 5)
	}
}

// drain is a batch of ready tasks for the limited queue.
func (h *history) drain(ns string) step {
	var lines strings.Builder
	for i := range limitedTasks {
		fmt.Fprintf(&lines, `{"op":"schedule","id":"limited-%d","queue":%q,"fire_at":%q}`+"\n", i, limitedQueue,
			instant(h.at-1))
	}
	return step{verb: drain, path: ns + "/batch", body: lines.String()}
}

type kind struct {
	weight int
	draw   func() step
}

// kinds are the kinds of steps with their weights.
func (h *history) kinds() []kind {
	return []kind{
		{16, h.put}, {4, h.batch}, {5, h.cancel}, {5, h.touch}, {5, h.patch}, {4, h.fire}, {4, h.again}, {4, h.read},
		{8, h.lease}, {12, h.settle},
		{4, h.putSchedule}, {3, h.patchSchedule}, {6, h.callSchedule}, {3, h.readSchedule},
		{3, h.rule}, {5, h.queue}, {3, h.dead}, {2, h.bulk}, {8, h.list},
	}
}

// tasks and schedules are the numbers of ids. They are few, so that calls meet.
const tasks, schedules = 24, 4

func (h *history) namespace() string { return namespaces[h.IntN(len(namespaces))] }
func (h *history) id() string        { return fmt.Sprint("task-", h.IntN(tasks)) }
func (h *history) path() string      { return h.namespace() + "/tasks/" + h.id() }
func (h *history) coin(n int) bool   { return h.IntN(n) == 0 }

func pick[T any](h *history, of ...T) T { return of[h.IntN(len(of))] }

// instant returns the instant at which a task comes due in this second, as the API takes it.
func instant(second int) string {
	return start.Add(time.Duration(second)*time.Second + dueAt).Format(time.RFC3339Nano)
}

// delay returns a delay from a call to the due fraction of a later second.
func (h *history) delay(most int) string {
	return (time.Duration(1+h.IntN(most))*time.Second + dueAt - callAt).String()
}

// spec returns the members of a task, without its time.
func (h *history) spec() string {
	queue := queues[h.IntN(len(queues))]
	members := []string{
		fmt.Sprintf(`"queue":%q`, queue),
		fmt.Sprintf(`"payload":{"n":%d,"fail":%d}`, len(h.steps), max(0, h.IntN(6)-3)),
	}
	if queue == "steps" {
		members = append(members, fmt.Sprintf(`"group":"group-%d"`, h.IntN(3)))
	}
	if h.coin(3) {
		members = append(members, fmt.Sprintf(`"labels":{"colour":%q}`, pick(h, "red", "blue")))
	}
	if h.coin(4) {
		members = append(members, fmt.Sprintf(`"priority":%d`, 1+h.IntN(5)))
	}
	if h.coin(6) {
		members = append(members, `"expires_after":"5.2s"`)
	}
	if h.coin(6) {
		members = append(members, `"retry":{"max_attempts":1}`)
	}
	return strings.Join(members, ",")
}

// task returns a task with its time. In a queue with an order no two tasks are due at the same millisecond.
func (h *history) task() string {
	when := fmt.Sprintf(`"delay":%q`, h.delay(20))
	if h.coin(2) {
		when = fmt.Sprintf(`"fire_at":%q`, instant(h.at-5+h.IntN(30)))
	}
	return when + "," + h.spec()
}

func (h *history) put() step {
	s := step{verb: "PUT", path: h.path(), body: "{" + h.task() + "}"}
	switch h.IntN(8) {
	case 0:
		s.ifAbsent = true
	case 1, 2:
		s.ifMatch = pick(h, h.id(), s.path[strings.LastIndex(s.path, "/")+1:])
	}
	return s
}

func (h *history) batch() step {
	var lines []string
	for range 5 + h.IntN(20) {
		line := fmt.Sprintf(`"id":%q,"key":"%d"`, h.id(), h.Uint32())
		switch h.IntN(5) {
		case 0:
			line += `,"op":"cancel"`
		case 1:
			line += fmt.Sprintf(`,"op":"touch","delay":%q`, h.delay(10))
		default:
			line += `,"op":"schedule",` + h.task()
		}
		lines = append(lines, "{"+line+"}")
	}
	return step{verb: "POST", path: h.namespace() + "/batch", body: strings.Join(lines, "\n") + "\n"}
}

func (h *history) cancel() step { return step{verb: "DELETE", path: h.path()} }

func (h *history) touch() step {
	body := fmt.Sprintf(`"delay":%q`, h.delay(20))
	switch h.IntN(4) {
	case 0:
		body += fmt.Sprintf(`,"no_later_than":%q`, instant(h.at+h.IntN(15)))
	case 1:
		body += fmt.Sprintf(`,"or_schedule":{%s}`, h.task())
	}
	return step{verb: "POST", path: h.path() + "/touch", body: "{" + body + "}"}
}

func (h *history) patch() step {
	s := step{verb: "PATCH", path: h.path()}
	s.body = "{" + pick(h, h.spec(), fmt.Sprintf(`"delay":%q`, h.delay(20)), `"labels":{"colour":null,"seen":"yes"}`) + "}"
	s.body = strings.Replace(s.body, `"queue":"hooks",`, "", 1)
	return s
}

func (h *history) fire() step { return step{verb: "POST", path: h.path() + "/fire"} }
func (h *history) read() step { return step{verb: "GET", path: h.path()} }

// again repeats one of the last changes with its key.
func (h *history) again() step {
	if len(h.changes) == 0 {
		return h.read()
	}
	return h.changes[len(h.changes)-1-h.IntN(min(len(h.changes), 6))]
}

func (h *history) lease() step {
	return step{verb: leaseAll, path: h.namespace() + "/queues/" + pick(h, "pull", "steps") + "/lease",
		body: `{"max":1000,"wait":"20ms","lease":"` + pick(h, "5.1s", "30.1s") + `"}`}
}

func (h *history) settle() step {
	return step{verb: settle, path: h.namespace() + "/queues/" + pick(h, "pull", "steps") + "/settle", task: h.id(),
		body: pick(h, `"ack":[RECEIPT]`, `"ack":[RECEIPT]`, `"nack":[{"receipt":RECEIPT,"reason":"full"}]`,
			fmt.Sprintf(`"nack":[{"receipt":RECEIPT,"delay":%q}]`, h.delay(5)),
			`"extend":[{"receipt":RECEIPT,"lease":"10.1s"}]`, `"release":[RECEIPT]`)}
}

func (h *history) schedulePath() string {
	return fmt.Sprintf("%s/schedules/schedule-%d", h.namespace(), h.IntN(schedules))
}

func (h *history) repeat() string {
	return pick(h, fmt.Sprintf(`{"every":"%ds","anchor":%q}`, 2+h.IntN(9), instant(-100+h.IntN(200))),
		fmt.Sprintf(`{"cron":["*/%d * * * * *"]}`, 3+h.IntN(20)),
		fmt.Sprintf(`{"cron":["%d * * * * *"],"time_zone":"Europe/Berlin","count":2}`, h.IntN(60)))
}

func (h *history) putSchedule() step {
	overlap := pick(h, "skip", "queue_one", "queue_all", "allow", "cancel_previous")
	return step{verb: "PUT", path: h.schedulePath(),
		body: fmt.Sprintf(`{"repeat":%s,"overlap":%q,"task":{%s}}`, h.repeat(), overlap, h.spec())}
}

func (h *history) patchSchedule() step {
	return step{verb: "PATCH", path: h.schedulePath(), body: "{" + pick(h, `"repeat":`+h.repeat(), `"note":"changed"`,
		`"task":{`+h.spec()+`}`) + "}"}
}

func (h *history) callSchedule() step {
	switch path := h.schedulePath(); h.IntN(10) {
	case 0:
		return step{verb: "DELETE", path: path}
	case 1:
		return step{verb: "POST", path: path + "/backfill",
			body: fmt.Sprintf(`{"from":%q,"to":%q}`, instant(h.at-20), instant(h.at-1))}
	default:
		return step{verb: "POST", path: path + pick(h, "/pause", "/resume", "/resume", "/fire", "/skip")}
	}
}

func (h *history) readSchedule() step {
	return step{verb: "GET", path: h.schedulePath() + pick(h, "", "/occurrences?next=5&last=20")}
}

// rule changes the rule of a queue, in ways that leave its tasks' times alone.
func (h *history) rule() step {
	return step{verb: "PATCH", path: h.namespace() + "/queues/" + pick(h, "hooks", "pull"),
		body: pick(h, `{"keep_done":"10s"}`, `{"keep_done":"60s"}`, `{"retry":{"delays":["1.1s","1.1s","4.1s"]}}`,
			`{"keep_dead":"30s"}`, `{"keep_dead":null}`)}
}

func (h *history) queue() step {
	path := h.namespace() + "/queues/" + pick(h, queues...)
	switch h.IntN(5) {
	case 0:
		return step{verb: "POST", path: path + "/pause"}
	case 1, 2:
		return step{verb: "POST", path: path + "/resume"}
	default:
		return step{verb: "GET", path: path}
	}
}

func (h *history) dead() step {
	path := h.namespace() + "/queues/" + pick(h, queues...) + "/dead"
	if h.coin(3) {
		return step{verb: "DELETE", path: path}
	}
	return step{verb: "POST", path: path + "/replay"}
}

// bulk changes some of the tasks that lie far ahead.
func (h *history) bulk() step {
	filter := fmt.Sprintf(`{"prefix":"far-","label":["lot:%d"]}`, h.IntN(4))
	do := pick(h, `"op":"cancel"`, `"op":"move","by":"10s"`, `"op":"patch","patch":{"labels":{"bulk":"yes"}}`,
		`"op":"cancel","dry_run":true`)
	return step{verb: bulk, path: h.namespace() + "/operations", body: fmt.Sprintf(`{%s,"filter":%s}`, do, filter)}
}

func (h *history) list() step {
	filters := []string{"", "&prefix=task-", "&prefix=far-1", "&queue=pull", "&label=lot:2", "&state=dead",
		"&state=scheduled&state=retrying", "&due_before=" + instant(h.at+5)}
	return step{verb: readPages, path: fmt.Sprintf("%s/tasks?limit=%d%s%s", h.namespace(), 1+h.IntN(50),
		pick(h, "", "&order=due"), pick(h, filters...))}
}
