package httpapi

import (
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/contract"
)

// patch reads a merge patch (RFC 7396): an absent member stays, null restores the default, and any other value is set.
func (p *parser) patch(data []byte) (*fsmpb.Patch, error) {
	r := contract.NewReader(data)
	patch, seen := new(fsmpb.Patch), contract.Set(0)
	err := r.Root(&contract.PatchObject, &seen, func(f contract.Field) error { return p.patchMember(r, f, patch) })
	if err == nil {
		err = p.checkPatch(patch, seen)
	}
	return patch, err
}

func (p *parser) patchMember(r *contract.Reader, f contract.Field, patch *fsmpb.Patch) error {
	if r.Null() {
		return restoreDefault(f, patch)
	}
	switch f {
	case contract.FireAt, contract.Delay:
		var plan plan
		err := p.when(r, f, &plan)
		patch.FireAtMs, patch.DelayMs = &plan.msg.FireAtMs, plan.msg.DelayMs
		return err
	case contract.Payload:
		data, err := payload(r)
		patch.Payload = &fsmpb.Payload{Data: data}
		return err
	case contract.PayloadBase64:
		data, err := payloadBase64(r)
		patch.Payload = &fsmpb.Payload{Data: data, IsBytes: true}
		return err
	case contract.ContentType:
		text, err := contentType(r)
		patch.ContentType = &text
		return err
	case contract.Target:
		return patchTarget(r, patch)
	case contract.Retry:
		return patchRetry(r, patch)
	case contract.Labels:
		return patchLabels(r, patch)
	case contract.Window:
		window, err := p.window(r)
		patch.Window = window
		return err
	case contract.Group:
		name, err := group(r)
		patch.Group = &name
		return err
	case contract.Priority:
		n, err := priority(r)
		patch.Priority = &n
		return err
	}
	panic("httpapi: no patch of field " + f.String())
}

// restoreDefault applies a null.
func restoreDefault(f contract.Field, patch *fsmpb.Patch) error {
	switch f {
	case contract.FireAt, contract.Delay:
		return &task.FieldError{Field: f.String(), Detail: "cannot be null: a task is always due at some time"}
	case contract.Payload, contract.PayloadBase64:
		patch.ClearPayload = true
	case contract.ContentType:
		patch.ContentType = new(string)
	case contract.Target:
		patch.ClearTarget = true
	case contract.Retry:
		patch.ClearRetry = true
	case contract.Labels:
		patch.ClearLabels = true
	case contract.Window:
		patch.ClearWindow = true
	case contract.Group:
		patch.Group = new(string)
	case contract.Priority:
		patch.Priority = new(uint32)
	}
	return nil
}

func patchTarget(r *contract.Reader, patch *fsmpb.Patch) error {
	t, seen := new(fsmpb.TargetPatch), contract.Set(0)
	patch.Target = t
	return r.Object("target", &contract.TargetObject, &seen, func(f contract.Field) (err error) {
		switch f {
		case contract.URL:
			t.Url, err = patchURL(r)
		case contract.Headers:
			err = patchHeaders(r, t)
		case contract.Timeout:
			t.TimeoutMs, err = numberOrNull(r, timeout)
		}
		return err
	})
}

func patchURL(r *contract.Reader) (*string, error) {
	text, err := targetURL(r)
	if err == nil && text == "" {
		err = &task.FieldError{Field: "target.url", Detail: "is empty"}
	}
	return &text, err
}

func patchHeaders(r *contract.Reader, t *fsmpb.TargetPatch) error {
	if r.Null() {
		t.ClearHeaders = true
		return nil
	}
	found, err := pairs(r, "target.headers", lowerASCII, true)
	for _, p := range found {
		t.Headers = append(t.Headers, &fsmpb.HeaderPatch{Name: p.name, Value: p.value})
	}
	return err
}

func patchLabels(r *contract.Reader, patch *fsmpb.Patch) error {
	found, err := pairs(r, "labels", asIs, true)
	for _, p := range found {
		patch.Labels = append(patch.Labels, &fsmpb.LabelPatch{Name: p.name, Value: p.value})
	}
	return err
}

func patchRetry(r *contract.Reader, patch *fsmpb.Patch) error {
	policy, seen := new(fsmpb.RetryPatch), contract.Set(0)
	patch.Retry = policy
	span := func(name string) (*int64, error) {
		return numberOrNull(r, func(r *contract.Reader) (int64, error) { return backoff(r, name) })
	}
	return r.Object("retry", &contract.RetryObject, &seen, func(f contract.Field) (err error) {
		switch f {
		case contract.MaxAttempts:
			policy.MaxAttempts, err = numberOrNull(r, maxAttempts)
		case contract.MinBackoff:
			policy.MinBackoffMs, err = span("retry.min_backoff")
		case contract.MaxBackoff:
			policy.MaxBackoffMs, err = span("retry.max_backoff")
		case contract.Delays:
			policy.Delays = new(fsmpb.RetryDelays)
			if !r.Null() {
				policy.Delays.Ms, err = delays(r)
			}
		}
		return err
	})
}

// numberOrNull reads a number, or returns 0 for a null. A 0 clears the field; read never returns 0.
func numberOrNull[T int64 | uint32](r *contract.Reader, read func(*contract.Reader) (T, error)) (*T, error) {
	if r.Null() {
		return new(T), nil
	}
	n, err := read(r)
	return &n, err
}

// checkPatch checks the set values against the limits. The merged task is checked again where it is merged.
func (p *parser) checkPatch(patch *fsmpb.Patch, seen contract.Set) error {
	if seen.Has(contract.FireAt) && seen.Has(contract.Delay) {
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

// settings returns a spec with only the values that the patch sets.
func settings(patch *fsmpb.Patch) *fsmpb.Spec {
	spec := &fsmpb.Spec{ContentType: patch.GetContentType()}
	if t := patch.Target; t != nil {
		spec.Target = &fsmpb.Target{Url: t.GetUrl(), TimeoutMs: t.GetTimeoutMs()}
		if t.Url == nil {
			spec.Target.Url = "http://unchanged" // the task's own URL is not known here
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
