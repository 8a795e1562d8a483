package httpapi

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/belfryhq/belfry/access"
)

// reach is the part of the cluster that a call is about.
type reach uint8

// The reaches of calls. Those of one namespace, and of operations, also have routes below /v1/namespaces/{ns}.
const (
	noReach      reach = iota // none is declared: the server does not start
	open                      // the call needs no credentials
	anyCaller                 // any credentials, also without a grant
	anywhere                  // the role in some namespace; the handler decides for each thing
	wholeCluster              // the role for all namespaces
	oneNamespace              // the role in the call's namespace; the handler, or middleware, checks queues and ids
)

// need is the demand of a route on its callers.
type need struct {
	role  access.Role
	reach reach
}

var (
	toAll    = need{access.Open, open}
	toCaller = need{access.Open, anyCaller}
)

func somewhere(r access.Role) need   { return need{r, anywhere} }
func inCluster(r access.Role) need   { return need{r, wholeCluster} }
func inNamespace(r access.Role) need { return need{r, oneNamespace} }

// endpoint is a route with its need. All of them stand in the table of endpoints, which is the only way to register a
// route. A test compares it with the security requirements in openapi.yaml.
type endpoint struct {
	method, path string
	need         need
	handler      echo.HandlerFunc
}

const doctorPath = "/v1/doctor"

// namespacePath begins the routes of calls that name their namespace. The rest of such a route is that of the short
// one.
const namespacePath = "/v1/namespaces/:ns"

// register registers the endpoints. It refuses one without a need, and one that is there twice.
func (s *Server) register(endpoints []endpoint) error {
	seen := map[string]bool{}
	for _, e := range endpoints {
		name := e.method + " " + e.path
		switch {
		case e.need.reach == noReach || (e.need.role == access.Open) != (e.need.reach <= anyCaller):
			return fmt.Errorf("httpapi: the route %s declares no need", name)
		case seen[name]:
			return fmt.Errorf("httpapi: the route %s is there twice", name)
		}
		seen[name] = true
		s.add(e)
	}
	return nil
}

func (s *Server) add(e endpoint) {
	if e.need.reach == open {
		s.echo.Add(e.method, e.path, s.briefly(e.handler))
		return
	}
	s.echo.Add(e.method, e.path, s.authorize(e.need, e.isAudited(), e.handler))
	if e.need.reach == oneNamespace || strings.HasPrefix(e.path, operationsPath) {
		below := need{e.need.role, oneNamespace}
		s.echo.Add(e.method, namespacePath+strings.TrimPrefix(e.path, "/v1"), s.authorize(below, e.isAudited(), e.handler))
	}
}

// operationsPath begins the routes of operations. They exist below a namespace, too, for the operations on it.
const operationsPath = "/v1/operations"

// shortRoute returns the route of the same call without a namespace in the path.
func shortRoute(route string) string {
	if rest, ok := strings.CutPrefix(route, namespacePath+"/"); ok {
		return "/v1/" + rest
	}
	return route
}

// endpoints is the table of calls. A call's middleware is listed in the order in which it acts: admission first, then
// cheap checks. The check of the caller comes before all of it, and the body last, in the handler.
func (s *Server) endpoints() []endpoint {
	ofNode := []endpoint{
		{http.MethodGet, "/healthz", toAll, s.healthz},
		{http.MethodGet, "/readyz", toAll, s.readyz},
		{http.MethodGet, "/openapi.yaml", toAll, s.openAPI},
		{http.MethodGet, "/metrics", inCluster(access.Read), s.metricsPage()},
	}
	return slices.Concat(s.taskEndpoints(), s.scheduleEndpoints(), s.calendarEndpoints(), s.queueEndpoints(),
		s.accessEndpoints(), s.clusterEndpoints(), ofNode)
}

func (s *Server) taskEndpoints() []endpoint {
	id, read, schedule := namedTask("id"), access.Read, access.Schedule
	return []endpoint{
		{"POST", "/v1/tasks", inNamespace(schedule), with(s.post, s.single, s.scheduling, unconditional, params())},
		{"GET", "/v1/tasks", inNamespace(read), with(s.list, s.single, s.watched, s.hurried,
			params("state", "queue", "prefix", "label", "due_after", "due_before", "order", "limit", "cursor", "include"))},
		{"PUT", "/v1/tasks/:id", inNamespace(schedule), with(s.put, s.single, s.scheduling, params(), namedNew("id"))},
		{"GET", "/v1/tasks/:id", inNamespace(read), with(s.get, s.single, params("consistency"), consistency, id)},
		{"PATCH", "/v1/tasks/:id", inNamespace(schedule), with(s.patch, s.single, params(), id)},
		{"DELETE", "/v1/tasks/:id", inNamespace(schedule), with(s.cancel, s.single, params(), id)},
		{"POST", "/v1/tasks/:id/touch", inNamespace(schedule), with(s.touch, s.single, params(), id)},
		{"POST", "/v1/tasks/:id/fire", inNamespace(schedule), with(s.fire, s.single, params(), id)},
		{"GET", "/v1/tasks/:id/history", inNamespace(read), with(s.taskHistory, s.single, params("limit"), id)},
		{"GET", "/v1/events", inNamespace(read), with(s.events, s.lasting(s.watchers), s.watched,
			params("queue", "type", "label", "prefix", "since", "after", "follow"))},
		{"POST", "/v1/preview", inNamespace(read), with(s.preview, s.single, params())},
		{"POST", "/v1/batch", inNamespace(schedule), with(s.batch, params(), lines, s.lasting(s.batches), s.watched)},
	}
}

func (s *Server) scheduleEndpoints() []endpoint {
	id, read, schedule := namedNew("id"), inNamespace(access.Read), inNamespace(access.Schedule)
	return []endpoint{
		{"GET", "/v1/schedules", read, with(s.listSchedules, s.single, s.watched, s.hurried,
			params("queue", "prefix", "label", "order", "limit", "cursor", "include"))},
		{"PUT", "/v1/schedules/:id", schedule, with(s.putSchedule, s.single, s.scheduling, params(), id)},
		{"GET", "/v1/schedules/:id", read, with(s.getSchedule, s.single, params("consistency"), consistency, id)},
		{"PATCH", "/v1/schedules/:id", schedule, with(s.patchSchedule, s.single, s.scheduling, params(), id)},
		{"DELETE", "/v1/schedules/:id", schedule, with(s.deleteSchedule, s.single, params(), soundKey, id)},
		{"POST", "/v1/schedules/:id/pause", schedule, with(s.pauseSchedule, s.single, params(), id)},
		{"POST", "/v1/schedules/:id/resume", schedule, with(s.resumeSchedule, s.single, params(), id)},
		{"POST", "/v1/schedules/:id/fire", schedule, with(s.fireSchedule, s.single, s.scheduling, params(), id)},
		{"POST", "/v1/schedules/:id/skip", schedule, with(s.skipOccurrence, s.single, params(), id)},
		{"POST", "/v1/schedules/:id/backfill", schedule, with(s.backfill, s.single, s.scheduling, params(), id)},
		{"GET", "/v1/schedules/:id/occurrences", read, with(s.occurrences, s.single,
			params("next", "last", "consistency"), consistency, id)},
	}
}

func (s *Server) calendarEndpoints() []endpoint {
	name, read, operate := named("calendar"), inNamespace(access.Read), inNamespace(access.Operate)
	return []endpoint{
		{"GET", "/v1/calendars", read, with(s.listCalendars, s.single, params())},
		{"PUT", "/v1/calendars/:calendar", operate, with(s.putCalendar, s.single, params(), soundKey, name)},
		{"GET", "/v1/calendars/:calendar", read, with(s.getCalendar, s.single, params(), name)},
		{"DELETE", "/v1/calendars/:calendar", operate, with(s.deleteCalendar, s.single, params(), soundKey, name)},
	}
}

func (s *Server) queueEndpoints() []endpoint {
	queue, dead := named("queue"), params("prefix", "label", "due_after", "due_before", "limit", "id")
	read, consume, operate := inNamespace(access.Read), inNamespace(access.Consume), inNamespace(access.Operate)
	return []endpoint{
		{"GET", "/v1/queues", read, with(s.listQueues, s.single, params("prefix", "limit", "cursor"))},
		{"PUT", "/v1/queues/:queue", operate, with(s.putQueue, s.single, params(), soundKey, queue)},
		{"GET", "/v1/queues/:queue", read, with(s.getQueue, s.single, params(), queue)},
		{"PATCH", "/v1/queues/:queue", operate, with(s.patchQueue, s.single, params(), soundKey, queue)},
		{"DELETE", "/v1/queues/:queue", operate, with(s.deleteQueue, s.single, params(), soundKey, queue)},
		{"POST", "/v1/queues/:queue/pause", operate, with(s.pauseQueue, s.single, params(), soundKey, queue)},
		{"POST", "/v1/queues/:queue/resume", operate, with(s.resumeQueue, s.single, params(), soundKey, queue)},
		{"POST", "/v1/queues/:queue/dead/replay", operate,
			with(s.replayDead, s.single, s.watched, s.hurried, dead, soundKey, queue)},
		{"DELETE", "/v1/queues/:queue/dead", operate,
			with(s.dropDead, s.single, s.watched, s.hurried, dead, soundKey, queue)},
		{"POST", "/v1/queues/:queue/settle", consume, with(s.settle, s.single, params(), soundKey, queue)},
		{"POST", "/v1/queues/:queue/lease", consume,
			with(s.lease, s.lasting(s.polls), s.watched, s.hurried, params(), soundKey, queue, s.consuming)},
		{"POST", "/v1/queues/:queue/stream", consume,
			with(s.stream, s.lasting(s.streams), s.watched, params("credit", "lease"), soundKey, queue, s.consuming)},
	}
}

// accessEndpoints are the calls about keys and namespaces. Callers see those that their grants reach.
func (s *Server) accessEndpoints() []endpoint {
	read, keys, namespaces := somewhere(access.Read), somewhere(access.Admin), inCluster(access.Admin)
	return []endpoint{
		{"GET", "/v1/whoami", toCaller, with(s.whoAmI, s.single, params())},
		{"POST", "/v1/keys", keys, with(s.newKey, s.single, params(), soundKey)},
		{"GET", "/v1/keys", keys, with(s.listKeys, s.single, params())},
		{"GET", "/v1/keys/:id", keys, with(s.getKey, s.single, params())},
		{"DELETE", "/v1/keys/:id", keys, with(s.removeKey, s.single, params(), soundKey)},
		{"POST", "/v1/keys/:id/rotate", keys, with(s.rotateKey, s.single, params(), soundKey)},
		{"GET", "/v1/namespaces", read, with(s.listNamespaces, s.single, params())},
		{"GET", namespacePath, read, with(s.getNamespace, s.single, params())},
		{"PUT", namespacePath, namespaces, with(s.putNamespace, s.single, params(), soundKey)},
		{"DELETE", namespacePath, namespaces, with(s.deleteNamespace, s.single, params(), soundKey)},
	}
}

// clusterEndpoints are the calls about the whole cluster.
func (s *Server) clusterEndpoints() []endpoint {
	id, read, operate := named("id"), inCluster(access.Read), inCluster(access.Operate)
	table := []endpoint{
		{"GET", backupPath, operate, with(s.backup, s.lasting(s.backups), s.watched, s.hurried, params("rate"))},
		{"GET", "/v1/audit", inCluster(access.Admin),
			with(s.readAudit, s.single, s.watched, s.hurried, params("after", "since", "limit"))},
		{"GET", "/v1/cluster", read, with(s.cluster, s.single, params())},
		{"PUT", "/v1/cluster", operate, with(s.putCluster, s.single, params(), soundKey)},
		{"GET", "/v1/wheel", read, with(s.wheel, s.single, s.watched, s.hurried, params("shard"))},
		{"GET", "/v1/activity", read, with(s.activity, s.single, s.watched, s.hurried, params("shard", "since"))},
		{"GET", "/v1/map", somewhere(access.Read), with(s.routes, s.single, params())},
		{"GET", doctorPath, read, with(s.doctor, s.lasting(s.doctors), s.watched, s.hurried, params())},
		{"POST", "/v1/nodes/tokens", operate, with(s.newJoinToken, s.single, params("valid_for"))},
		{"GET", "/v1/nodes/tokens", operate, with(s.listJoinTokens, s.single, params())},
		{"DELETE", "/v1/nodes/tokens/:id", operate, with(s.removeJoinToken, s.single, params())},
		{"GET", "/v1/nodes", read, with(s.listNodes, s.single, params())},
		{"POST", "/v1/shards/:shard/split", operate, with(s.splitShard, s.single, params(), soundKey)},
		{"POST", "/v1/shards/move", operate, with(s.moveSlots, s.single, params(), soundKey)},
		{"POST", "/v1/shards/balance", operate, with(s.balanceShards, s.single, params(), soundKey)},
		{"GET", "/v1/operations", somewhere(access.Read), with(s.listOperations, s.single, params())},
		{"GET", "/v1/operations/:id", somewhere(access.Read), with(s.getOperation, s.single, params(), id)},
		{"POST", "/v1/operations", inNamespace(access.Operate), with(s.beginBulk, s.single, params(), soundKey)},
		{"DELETE", "/v1/operations/:id", somewhere(access.Operate),
			with(s.stopOperation, s.single, params(), soundKey, id)},
	}
	if s.cfg.Advance != nil {
		table = append(table, endpoint{"POST", "/v1/dev/advance", operate, with(s.advance, s.single, params())})
	}
	for _, kind := range []string{drainNode, resumeNode, "remove", "replace"} {
		table = append(table, endpoint{"POST", "/v1/nodes/:id/" + kind, operate,
			with(s.operateNode(kind), s.single, params(), soundKey, id)})
	}
	return table
}

// with puts middleware around a handler, the first one outermost. It does so once, while echo would do so for every
// call.
func with(h echo.HandlerFunc, middleware ...echo.MiddlewareFunc) echo.HandlerFunc {
	for _, m := range slices.Backward(middleware) {
		h = m(h)
	}
	return h
}
