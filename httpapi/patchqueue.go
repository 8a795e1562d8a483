package httpapi

import (
	"context"
	"net/http"

	"github.com/labstack/echo/v4"
	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/contract"
)

// patchQueue merges a merge patch (RFC 7396) into a queue's policy.
func (s *Server) patchQueue(c echo.Context) error {
	queue := c.Param("queue")
	body, err := bind(c, s.cfg.BodyBytes, jsonType, mergeType)
	defer body.release()
	if err != nil {
		return err
	}
	p := s.parser(c.Request())
	return s.updateQueue(c, queue, func(policy *fsmpb.QueuePolicy) error { return p.patchPolicy(body.data, policy) })
}

func (s *Server) pauseQueue(c echo.Context) error { return s.setPaused(c, true) }

func (s *Server) resumeQueue(c echo.Context) error { return s.setPaused(c, false) }

func (s *Server) setPaused(c echo.Context, paused bool) error {
	queue := c.Param("queue")
	if err := s.emptyBody(c); err != nil {
		return err
	}
	return s.updateQueue(c, queue, func(policy *fsmpb.QueuePolicy) error {
		policy.Paused = paused
		return nil
	})
}

// updateQueue changes a copy of the queue's policy, or of the defaults if there is none, and answers with the stored
// policy.
func (s *Server) updateQueue(c echo.Context, queue string, change func(*fsmpb.QueuePolicy) error) error {
	ctx, cancel := context.WithTimeout(c.Request().Context(), s.cfg.RequestTimeout)
	defer cancel()
	policy, err := s.cfg.Backend.UpdateQueue(ctx, task.DefaultNamespace, queue,
		func(current *fsmpb.QueuePolicy) (*fsmpb.QueuePolicy, error) {
			next := &fsmpb.QueuePolicy{Namespace: task.DefaultNamespace, Queue: queue}
			if current != nil {
				next = proto.CloneOf(current)
			}
			return next, change(next)
		})
	if err != nil {
		return err
	}
	s.writeQueue(c, http.StatusOK, queue, policy, nil)
	return nil
}

// patchPolicy applies a merge patch to a policy: an absent member stays, null restores the default, and any other value
// is set.
func (p *parser) patchPolicy(data []byte, policy *fsmpb.QueuePolicy) error {
	r, seen := contract.NewReader(data), contract.Set(0)
	d := &policyDraft{policy: policy, merged: true}
	err := r.Root(&contract.PolicyObject, &seen, func(f contract.Field) error { return d.member(r, f) })
	if err != nil {
		return err
	}
	if d.secrets != nil {
		var err error
		if policy.Secrets, err = keepSecrets(d.secrets, policy.Secrets); err != nil {
			return err
		}
	}
	if err := p.checkPolicy(policy); err != nil {
		return err
	}
	return checked(task.CheckMasked(policy.Target))
}
