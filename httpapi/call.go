package httpapi

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/netip"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/belfryhq/belfry/access"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/httpapi/internal/rights"
)

// Access finds the callers behind credentials. It may be called concurrently.
type Access interface {
	// Caller returns the caller with these credentials. It refuses with an *access.Refusal.
	Caller(ctx context.Context, c access.Credentials) (*access.Caller, error)
}

// local is the caller of every call while no credentials are in force.
var local = &access.Caller{
	Kind: access.KindLocal, Grants: []access.Grant{{Role: access.Admin, Namespace: access.AllNamespaces}},
}

// call is a call whose caller may make it. It takes the place of echo's context in the handlers of all routes but the
// open ones.
type call struct {
	echo.Context
	caller    *access.Caller
	need      need
	namespace string        // of the call's tasks and queues; empty: the call is not about those of one namespace
	limited   bool          // the caller's grants for the call reach only some queues or ids
	right     *rights.Right // of the caller to a call that lasts; nil: it is not watched
	audited   *audited      // nil: only a refusal of the call is recorded
}

func callOf(c echo.Context) *call { return c.(*call) }

// authorize puts the check of the caller before a handler. Refusals are recorded, and all calls if isAudited is set.
func (s *Server) authorize(n need, isAudited bool, next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		caller, err := callerOf(s.cfg.Access, c.Request())
		if err != nil {
			return s.noteRefusal(c, nil, err)
		}
		cl := &call{Context: c, caller: caller, need: n}
		if s.log != nil || s.cfg.Tracer != nil {
			c.Set(callKey, cl)
		}
		if isAudited {
			cl.audited = new(audited)
		}
		if err := s.check(cl); err != nil {
			return s.noteRefusal(cl, caller, err)
		}
		if err := s.admitCall(cl); err != nil {
			return err
		}
		s.commits.note(cl.namespace)
		return s.handle(cl, next)
	}
}

// callerOf returns the caller of a request. Its error is a problem.
func callerOf(a Access, r *http.Request) (*access.Caller, error) {
	if a == nil {
		return local, nil
	}
	return judge(r.Context(), a, credentialsOf(r))
}

func credentialsOf(r *http.Request) access.Credentials {
	c := access.Credentials{Authorization: strings.Join(r.Header["Authorization"], ", ")}
	if at, err := netip.ParseAddrPort(r.RemoteAddr); err == nil {
		c.Addr = at.Addr().Unmap()
	}
	if r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
		c.Certificate = r.TLS.VerifiedChains[0][0]
	}
	return c
}

func judge(ctx context.Context, a Access, c access.Credentials) (*access.Caller, error) {
	caller, err := a.Caller(ctx, c)
	if err != nil {
		return nil, refusedCredentials(err)
	}
	return caller, nil
}

func refusedCredentials(err error) *problem {
	var refusal *access.Refusal
	if !errors.As(err, &refusal) {
		return &problem{kind: notReady, detail: reason(err), committed: "no", retryAfter: 1}
	}
	p := &problem{kind: unauthenticated, detail: refusal.Detail}
	switch refusal.Kind {
	case access.TooMany:
		p.kind = tooManyAttempts
	case access.Unavailable:
		p.kind, p.committed = notReady, "no"
	default:
		return p
	}
	p.retryAfter = max(int(math.Ceil(refusal.RetryAfter.Seconds())), 1)
	return p
}

// check finds the call's namespace, and refuses the call if its caller may not make it. A namespace that is not there
// and one that the caller's grants do not reach are refused alike, as a task that does not exist.
func (s *Server) check(c *call) error {
	switch c.need.reach {
	case anyCaller:
		return nil
	case anywhere:
		if !c.caller.Has(c.need.role) {
			return c.roleMissing("in some namespace")
		}
		return nil
	case wholeCluster:
		return c.checkCluster()
	}
	if err := s.enter(c); err != nil {
		return err
	}
	return c.limit()
}

// limit refuses a call in a namespace without the role, and finds whether the grants are limited.
func (c *call) limit() error {
	need := access.Need{Role: c.need.role, Namespace: c.namespace}
	if c.caller.Allows(need) {
		return nil
	}
	c.limited = true
	if need.AnyQueue, need.AnyID = true, true; !c.caller.Allows(need) {
		return c.roleMissing("in the namespace " + c.namespace)
	}
	return nil
}

func (c *call) checkCluster() error {
	if !c.caller.Allows(access.Need{Role: c.need.role}) {
		return c.roleMissing("for all namespaces")
	}
	return nil
}

// enter sets the call's namespace: that of its path, or the caller's own. The path of /v1/namespaces//tasks names the
// empty namespace, which does not exist.
func (s *Server) enter(c *call) error {
	switch {
	case !c.hasLongPath():
		c.namespace = c.caller.Namespace()
	case c.Request().URL.RawPath == "":
		c.namespace = c.Param("ns")
	default:
		c.namespace, _ = url.PathUnescape(c.Param("ns")) // faulty: no namespace has this name
	}
	return s.checkVisible(c)
}

// hasLongPath reports whether the path of the call names the namespace.
func (c *call) hasLongPath() bool { return strings.HasPrefix(c.Path(), namespacePath) }

func (s *Server) checkVisible(c *call) error {
	if c.namespace != "" && c.caller.Sees(c.namespace) &&
		(c.namespace == task.DefaultNamespace || s.cfg.Backend.NamespaceActive(c.namespace)) {
		return nil
	}
	hidden := notFound()
	hidden.hides = true
	return hidden
}

// notFound returns the refusal of a task that does not exist, and of all that the caller must not know of.
func notFound() *problem { return &problem{kind: taskNotFound, detail: noSuchTask} }

// missing returns the refusal of a task or a schedule that does not exist, by the id of its record.
func missing(recordID string) *problem {
	if _, ok := task.SplitSeries(recordID); ok {
		return &problem{kind: scheduleNotFound, detail: noSuchSchedule}
	}
	return notFound()
}

func (c *call) roleMissing(where string) *problem {
	return &problem{kind: forbidden, detail: fmt.Sprintf("the call needs the role %s %s", c.need.role, where)}
}

// checkQueue refuses a call about a queue and all of its tasks that the caller's grants do not reach.
func (c *call) checkQueue(queue string) error {
	if !c.limited || c.caller.Allows(access.Need{Role: c.need.role, Namespace: c.namespace, Queue: queue}) {
		return nil
	}
	return outside("queue", "is not among the queues of your grants, or they are limited to some ids")
}

func outside(field, detail string) *problem {
	return &problem{kind: forbidden, field: field, detail: detail}
}

// checkList refuses a list of tasks that reaches beyond the caller's grants. The queue and the prefix of its ids may be
// empty.
func (c *call) checkList(queue, prefix string) error {
	need := access.Need{Role: c.need.role, Namespace: c.namespace, Queue: queue, ID: prefix, IDPrefix: true}
	if !c.limited || c.caller.Allows(need) {
		return nil
	}
	if need.AnyQueue = true; c.caller.Allows(need) {
		return outside("queue", "must name a queue that your grants reach")
	}
	return outside("prefix", "must begin with a prefix of ids that your grants reach")
}

// checkQueues refuses a list of queues that reaches beyond the caller's grants.
func (c *call) checkQueues(prefix string) error {
	need := access.Need{Role: c.need.role, Namespace: c.namespace, Queue: prefix, QueuePrefix: true}
	if !c.limited || c.caller.Allows(need) {
		return nil
	}
	return outside("prefix", "must begin with a prefix of queues that your grants reach, for all ids")
}

// reaches reports whether the caller's grants for this call reach a task.
func (c *call) reaches(t *fsmpb.Task) bool { return c.mayUse(t.GetSpec().GetQueue(), t.GetId()) }

func (c *call) mayUse(queue, id string) bool {
	return !c.limited || c.caller.Allows(access.Need{
		Role: c.need.role, Namespace: c.namespace, Queue: orElse(queue, task.DefaultQueue), ID: grantedID(id),
	})
}

// grantedID returns the id that grants must reach: of a schedule's record and of its occurrences, the schedule's id.
func grantedID(id string) string {
	name, _, _ := strings.Cut(id, "@")
	return name
}

// checkCommand refuses a command that would put a task where the caller's grants do not reach, or whose id they do not
// reach.
func (c *call) checkCommand(cmd *fsmpb.Command) error {
	if !c.limited {
		return nil
	}
	if spec := givenSpec(cmd); spec != nil {
		if !c.mayUse(spec.Queue, cmd.Id) {
			return outside(queueField(cmd), "is not one that your grants reach for this id")
		}
		return c.checkFollowUps(spec.OnDelivered, spec.OnDead, cmd.Id)
	}
	if set := cmd.GetPatch().GetSet(); set != nil {
		if err := c.checkFollowUps(set.OnDelivered, set.OnDead, cmd.Id); err != nil {
			return err
		}
	}
	id := grantedID(cmd.Id)
	if !c.caller.Allows(access.Need{Role: c.need.role, Namespace: c.namespace, ID: id, AnyQueue: true}) {
		return missing(cmd.Id)
	}
	return nil
}

// checkFollowUps refuses follow-ups of a task, or with an empty id of a queue, in queues that the caller's grants do
// not reach.
func (c *call) checkFollowUps(onDelivered, onDead *fsmpb.FollowUp, id string) error {
	for path, f := range task.FollowUps(onDelivered, onDead) {
		if !c.mayUse(f.Spec.GetQueue(), id) {
			return outside(path+".queue", "is not one that your grants reach for this id")
		}
	}
	return nil
}

// queueField returns the name of the queue's member in the body that a command comes from.
func queueField(cmd *fsmpb.Command) string {
	if cmd.GetSetSeries() != nil {
		return "task.queue"
	}
	return "queue"
}

// givenSpec returns the whole spec of a task or a schedule that a command makes, or nil if it makes none.
func givenSpec(cmd *fsmpb.Command) *fsmpb.Spec {
	if set := cmd.GetSetSeries(); set != nil {
		return set.Spec
	}
	return scheduled(cmd).GetSpec()
}

// scheduled returns the part of a command that makes a task, or nil if it has none.
func scheduled(cmd *fsmpb.Command) *fsmpb.Schedule {
	if made := cmd.GetSchedule(); made != nil {
		return made
	}
	return cmd.GetTouch().GetOrSchedule()
}

// scopeOf returns a namespace as commands have it: empty for the default one.
func scopeOf(namespace string) string {
	if namespace == task.DefaultNamespace {
		return ""
	}
	return namespace
}

// locate returns the path of something in the call's namespace, in the form that the call has used.
func (c *call) locate(rest string) string {
	if !c.hasLongPath() {
		return "/v1" + rest
	}
	return "/v1/namespaces/" + c.namespace + rest
}

// recheckEvery is the time after which the caller of a call that lasts is checked again: half of the second within
// which a revocation holds, since the news takes time to come from another node.
const recheckEvery = time.Second / 2

// watch gives a call its right, which ends when its caller may not make the call any more. The caller must stop it.
func (s *Server) watch(c *call) (stop func()) {
	if s.cfg.Access == nil {
		return func() {}
	}
	queue, _ := url.PathUnescape(c.Param("queue")) // not decoded yet; the middleware named refuses a faulty name
	w := &watch{
		s: s, call: call{need: c.need, namespace: c.namespace}, queue: queue, credentials: credentialsOf(c.Request()),
		grants: c.usable(),
	}
	c.right = rights.Watch(c.Request().Context(), recheckEvery, w.check)
	return c.right.Stop
}

// watch judges whether the caller may still make a call that lasts: its key may be revoked meanwhile, or its namespace
// deleted.
type watch struct {
	s           *Server
	call        call // as it was checked; without its context, which is the handler's
	queue       string
	credentials access.Credentials
	grants      []access.Grant // for the call, at its beginning
}

// check returns the refusal of a caller that may not make the call any more. While the node cannot judge the
// credentials, its last judgement stands.
func (w *watch) check(ctx context.Context) error {
	c := w.call
	var err error
	if c.caller, err = judge(ctx, w.s.cfg.Access, w.credentials); err != nil {
		if p := problemOf(err); p.kind == notReady {
			return nil
		}
		return err
	}
	if c.need.reach != oneNamespace {
		return c.checkCluster()
	}
	if err = w.s.checkVisible(&c); err == nil {
		err = c.limit()
	}
	switch {
	case err != nil:
		return err
	case w.queue != "":
		return c.checkQueue(w.queue)
	}
	return w.checkGrants(&c)
}

// checkGrants refuses a caller with limited grants that has lost one of those for the call since the call began. The
// handler still checks against the lost grant.
func (w *watch) checkGrants(c *call) error {
	if !c.limited {
		return nil
	}
	left := c.usable()
	for _, g := range w.grants {
		if !slices.ContainsFunc(left, func(l access.Grant) bool { return reflect.DeepEqual(g, l) }) {
			return &problem{kind: forbidden, detail: "the caller's grants have changed: begin anew with the present ones"}
		}
	}
	return nil
}

// usable returns the caller's grants that allow the call for some queue and id.
func (c *call) usable() []access.Grant {
	need := access.Need{Role: c.need.role, Namespace: c.namespace, AnyQueue: true, AnyID: true}
	return slices.DeleteFunc(slices.Clone(c.caller.Grants), func(g access.Grant) bool {
		return !(&access.Caller{Grants: []access.Grant{g}}).Allows(need)
	})
}

// life returns a context that ends when the caller of a call leaves, or loses its right to the call.
func (c *call) life() context.Context {
	if c.right == nil {
		return c.Request().Context()
	}
	return c.right.Life()
}

// lastWords is the time for a call whose caller has lost its right to end what it has begun, and the same again to tell
// its client.
const lastWords = recheckEvery / 3

// ending returns the last line of a batch or a stream whose caller has lost its right.
func (c *call) ending(kind string) *problem {
	p := *problemOf(c.right.Refusal())
	p.detail = "the " + kind + " ends here: " + p.detail
	return &p
}
