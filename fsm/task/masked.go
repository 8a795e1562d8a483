package task

import (
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/fsm/fsmpb"
)

// Masked stands for the value of a header that carries credentials: in answers, which never show it, and in requests,
// where it keeps the value that is stored.
const Masked = "***"

// IsCredential reports whether the values of a target's header are shown to no caller. The name is in lower case.
func IsCredential(header string) bool { return header == "authorization" || header == "cookie" }

func isMasked(h *fsmpb.Header) bool { return h.Value == Masked && IsCredential(h.Name) }

// HasMasked reports whether a header of t asks to keep its stored value. t may be nil.
func HasMasked(t *fsmpb.Target) bool { return slices.ContainsFunc(t.GetHeaders(), isMasked) }

// KeepMasked returns t with each masked header value replaced by the value of that header in stored, which may be nil.
// It writes to neither target. A header without a value in stored stays masked: CheckMasked finds it.
func KeepMasked(t, stored *fsmpb.Target) *fsmpb.Target {
	if !HasMasked(t) {
		return t
	}
	t = proto.CloneOf(t)
	for _, h := range t.Headers {
		if !isMasked(h) {
			continue
		}
		for _, kept := range stored.GetHeaders() {
			if kept.Name == h.Name {
				h.Value = kept.Value
			}
		}
	}
	return t
}

// CheckMasked refuses a target that is to be stored, and says to keep a header that is not there.
func CheckMasked(t *fsmpb.Target) *FieldError {
	for _, h := range t.GetHeaders() {
		if isMasked(h) {
			return &FieldError{Field: "target.headers." + h.Name, Detail: "is " + Masked + ", which keeps the value that is " +
				"stored, and none is stored"}
		}
	}
	return nil
}
