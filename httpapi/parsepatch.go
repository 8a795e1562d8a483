package httpapi

import (
	"strings"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// patch reads a merge patch (RFC 7396): an absent member stays, null goes back to the default, anything else is set.
func (p *parser) patch(data []byte) (*fsmpb.Patch, error) {
	s := &scanner{data: data}
	if s.peek() != '{' {
		return nil, s.notObject()
	}
	patch, seen := new(fsmpb.Patch), fieldSet(0)
	err := p.patchObject(s, &seen, fieldsOfPatch, func(f field) error { return p.patchMember(s, f, patch) })
	if err == nil {
		err = p.checkPatch(patch, seen)
	}
	return patch, err
}

// patchObject reads an object whose members are among allowed, and calls member before the value of each.
func (p *parser) patchObject(s *scanner, seen *fieldSet, allowed fieldSet, member func(field) error) error {
	err := s.object(func(name []byte) error {
		f, err := seen.admit(name, allowed)
		if err != nil {
			return err
		}
		return member(f)
	})
	if err == nil {
		err = s.end()
	}
	return err
}

func (p *parser) patchMember(s *scanner, f field, patch *fsmpb.Patch) error {
	if s.null() {
		return restoreDefault(f, patch)
	}
	switch f {
	case fieldFireAt, fieldDelay:
		var plan plan
		err := p.when(s, f, &plan)
		patch.FireAtMs, patch.DelayMs = &plan.msg.FireAtMs, plan.msg.DelayMs
		return err
	case fieldPayload:
		data, err := s.payload()
		patch.Payload = &fsmpb.Payload{Data: data}
		return err
	case fieldPayloadBase64:
		data, err := s.payloadBase64()
		patch.Payload = &fsmpb.Payload{Data: data, IsBytes: true}
		return err
	case fieldContentType:
		text, err := s.contentType()
		patch.ContentType = &text
		return err
	case fieldTarget:
		return patchTarget(s, patch)
	case fieldRetry:
		return patchRetry(s, patch)
	case fieldLabels:
		return patchLabels(s, patch)
	}
	panic("httpapi: no patch of field " + f.String())
}

// restoreDefault carries out a null.
func restoreDefault(f field, patch *fsmpb.Patch) error {
	switch f {
	case fieldFireAt, fieldDelay:
		return &task.FieldError{Field: f.String(), Detail: "cannot be null: a task is always due at some time"}
	case fieldPayload, fieldPayloadBase64:
		patch.ClearPayload = true
	case fieldContentType:
		patch.ContentType = new(string)
	case fieldTarget:
		patch.ClearTarget = true
	case fieldRetry:
		patch.ClearRetry = true
	case fieldLabels:
		patch.ClearLabels = true
	}
	return nil
}

func patchTarget(s *scanner, patch *fsmpb.Patch) error {
	t := new(fsmpb.TargetPatch)
	patch.Target = t
	fields := once{prefix: "target.", names: []string{"url", "headers", "timeout"}}
	return s.members("target", func(name []byte) error {
		member, err := fields.admit(name)
		if err != nil {
			return err
		}
		switch member {
		case "url":
			t.Url, err = s.patchURL()
		case "headers":
			err = patchHeaders(s, t)
		case "timeout":
			t.TimeoutMs, err = numberOrNull(s, (*scanner).timeout)
		}
		return err
	})
}

func (s *scanner) patchURL() (*string, error) {
	text, err := s.text("target.url")
	if err == nil && text == "" {
		err = &task.FieldError{Field: "target.url", Detail: "is empty"}
	}
	return &text, err
}

func patchHeaders(s *scanner, t *fsmpb.TargetPatch) error {
	if s.null() {
		t.ClearHeaders = true
		return nil
	}
	found, err := pairs(s, "target.headers", strings.ToLower, true)
	for _, p := range found {
		t.Headers = append(t.Headers, &fsmpb.HeaderPatch{Name: p.name, Value: p.value})
	}
	return err
}

func patchLabels(s *scanner, patch *fsmpb.Patch) error {
	found, err := pairs(s, "labels", asIs, true)
	for _, p := range found {
		patch.Labels = append(patch.Labels, &fsmpb.LabelPatch{Name: p.name, Value: p.value})
	}
	return err
}

func patchRetry(s *scanner, patch *fsmpb.Patch) error {
	r := new(fsmpb.RetryPatch)
	patch.Retry = r
	fields := retryFields()
	return s.members("retry", func(name []byte) error {
		member, err := fields.admit(name)
		if err != nil {
			return err
		}
		switch member {
		case "max_attempts":
			r.MaxAttempts, err = numberOrNull(s, (*scanner).maxAttempts)
		case "min_backoff":
			r.MinBackoffMs, err = numberOrNull(s, func(s *scanner) (int64, error) { return s.backoff("retry.min_backoff") })
		case "max_backoff":
			r.MaxBackoffMs, err = numberOrNull(s, func(s *scanner) (int64, error) { return s.backoff("retry.max_backoff") })
		case "delays":
			r.Delays = new(fsmpb.RetryDelays)
			if !s.null() {
				r.Delays.Ms, err = s.delays()
			}
		}
		return err
	})
}

// numberOrNull makes 0, which clears, of a null. No number that can be read is 0.
func numberOrNull[T int64 | uint32](s *scanner, read func(*scanner) (T, error)) (*T, error) {
	if s.null() {
		return new(T), nil
	}
	n, err := read(s)
	return &n, err
}

// checkPatch holds what is set against the limits. The merged task is checked once more where it is merged.
func (p *parser) checkPatch(patch *fsmpb.Patch, seen fieldSet) error {
	if seen.has(fieldFireAt) && seen.has(fieldDelay) {
		return &task.FieldError{Field: "delay", Detail: "and fire_at are both given: at most one of them"}
	}
	if err := onePayload(seen); err != nil {
		return err
	}
	if err := task.CheckSpec(settings(patch)); err != nil {
		return err
	}
	if patch.Target.GetUrl() != "" {
		if err := p.checkURL(patch.Target.GetUrl()); err != nil {
			return err
		}
	}
	return nil
}

// settings is a task made of nothing but what the patch sets.
func settings(patch *fsmpb.Patch) *fsmpb.Spec {
	spec := &fsmpb.Spec{ContentType: patch.GetContentType()}
	if t := patch.Target; t != nil {
		spec.Target = &fsmpb.Target{Url: t.GetUrl(), TimeoutMs: t.GetTimeoutMs()}
		if t.Url == nil {
			spec.Target.Url = "http://unchanged" // the task's own is not known here
		}
		for _, h := range t.Headers {
			if h.Value != nil {
				spec.Target.Headers = append(spec.Target.Headers, &fsmpb.Header{Name: h.Name, Value: *h.Value})
			}
		}
	}
	if r := patch.Retry; r != nil {
		spec.Retry = &fsmpb.Retry{
			MaxAttempts: r.GetMaxAttempts(), MinBackoffMs: r.GetMinBackoffMs(), MaxBackoffMs: r.GetMaxBackoffMs(),
			DelaysMs: r.GetDelays().GetMs(),
		}
	}
	for _, l := range patch.Labels {
		if l.Value != nil {
			spec.Labels = append(spec.Labels, &fsmpb.Label{Name: l.Name, Value: *l.Value})
		}
	}
	return spec
}
