package delivery

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// Tokens signs the tokens of targets with auth.jwt.
type Tokens interface {
	// Issuer returns the claim iss.
	Issuer() string
	// Sign returns a signed token with these claims, a JSON object. An empty algorithm is the default one.
	Sign(ctx context.Context, algorithm string, claims []byte) (string, error)
}

// Certificates has the certificates of targets with auth.client_certificate.
type Certificates interface {
	// Certificate returns the certificate with a name for the tasks of a namespace. The pointer is the same until the
	// certificate changes.
	Certificate(namespace, name string) (*tls.Certificate, error)
}

// unprovenError is the error of a request that this node cannot prove to be the cluster's. It fails the attempt and
// says nothing about the receiver. A later attempt may succeed, or one by another node.
type unprovenError struct{ cause error }

func (e *unprovenError) Error() string { return "not sent: " + e.cause.Error() }

const bearer = "Bearer "

// claims are the claims of a token that Belfry sets. Further ones stand before them in the token.
type claims struct {
	Issuer    string `json:"iss"`
	Subject   string `json:"sub"`
	Audience  string `json:"aud"`
	IssuedAt  int64  `json:"iat"` // Unix time in seconds, as Expires
	Expires   int64  `json:"exp"`
	Namespace string `json:"belfry_namespace"`
	Queue     string `json:"belfry_queue"`
}

// authorize adds the token of a request, if the target has auth.jwt. The subject is the id of the task or of the batch.
func (w *Webhook) authorize(req *http.Request, t *fsmpb.Task, subject string, now time.Time) error {
	jwt := t.Spec.Target.GetAuth().GetJwt()
	if jwt == nil {
		return nil
	}
	if w.cfg.Tokens == nil {
		return &unprovenError{errors.New("this node signs no tokens")}
	}
	set, err := json.Marshal(claims{
		w.cfg.Tokens.Issuer(), subject, jwt.Audience, now.Unix(), now.Add(task.TokenLife).Unix(),
		task.CanonicalNamespace(t.Namespace), cmp.Or(t.Spec.Queue, task.DefaultQueue),
	})
	if err != nil {
		return err
	}
	if own := jwt.Claims; len(own) > len("{}") {
		set = append(append(own[:len(own)-1:len(own)-1], ','), set[1:]...)
	}
	token, err := w.cfg.Tokens.Sign(req.Context(), jwt.Algorithm, set)
	if err != nil {
		return &unprovenError{err}
	}
	req.Header.Set("Authorization", bearer+token)
	return nil
}

// withoutToken masks the token of a request in the answer of a receiver that repeats the header, since a follow-up gets
// the answer. Errors are cut below the length of a token.
func (w *Webhook) withoutToken(answer string, t *fsmpb.Task, sent http.Header) string {
	if answer == "" || t.Spec.Target.GetAuth().GetJwt() == nil {
		return answer
	}
	return strings.ReplaceAll(answer, strings.TrimPrefix(sent.Get("Authorization"), bearer), task.Masked)
}

// transports holds the transport of requests without a certificate, and one for each certificate. A connection, or a
// TLS session, of one certificate carries no request of another.
type transports struct {
	cfg   Config
	plain *http.Transport

	mu     sync.Mutex
	proven map[certificateName]provenTransport
}

type certificateName struct{ namespace, name string }

type provenTransport struct {
	*http.Transport
	certificate *tls.Certificate
}

// maxProven bounds the transports with certificates, and with them the idle connections of a node.
const maxProven = 32

// of returns the transport of a task's requests.
func (t *transports) of(of *fsmpb.Task) (*http.Transport, error) {
	name := certificateName{
		task.CanonicalNamespace(of.GetNamespace()), of.GetSpec().GetTarget().GetAuth().GetClientCertificate(),
	}
	if name.name == "" {
		return t.plain, nil
	}
	if t.cfg.Certificates == nil {
		return nil, &unprovenError{fmt.Errorf("this node has no client certificates, and so not %s", name.name)}
	}
	certificate, err := t.cfg.Certificates.Certificate(name.namespace, name.name)
	if err != nil {
		return nil, &unprovenError{err}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	known := t.proven[name]
	if known.certificate == certificate {
		return known.Transport, nil
	}
	if known.Transport != nil {
		known.CloseIdleConnections()
	} else if len(t.proven) >= maxProven || t.proven == nil {
		t.closeProven()
		t.proven = map[certificateName]provenTransport{}
	}
	cfg := t.cfg
	cfg.MaxIdle = max(cfg.MaxIdle/maxProven, 1)
	known = provenTransport{newTransport(cfg, certificate), certificate}
	t.proven[name] = known
	return known.Transport, nil
}

func (t *transports) close() {
	t.plain.CloseIdleConnections()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closeProven()
}

func (t *transports) closeProven() {
	for _, proven := range t.proven {
		proven.CloseIdleConnections()
	}
}
