package webhook_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"time"

	"github.com/belfryhq/belfry/client/webhook"
)

const (
	ordersSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	closeOrder   = `{"order": 1042}`
)

// signed returns a request as Belfry sends it, for a receiver's own tests.
func signed(fence uint64) *http.Request {
	now := time.Now()
	signature, err := webhook.Sign(ordersSecret, "msg_5-8841-1", now, []byte(closeOrder))
	if err != nil {
		panic(err)
	}
	r := httptest.NewRequest("POST", "/orders", strings.NewReader(closeOrder))
	for name, value := range map[string]string{
		"content-type": "application/json", "webhook-id": "msg_5-8841-1", "webhook-signature": signature,
		"webhook-timestamp": strconv.FormatInt(now.Unix(), 10), "ce-id": "msg_5-8841-1", "ce-subject": "order-1042-close",
		"ce-source": "/v1/queues/orders", "ce-time": "2026-11-21T10:00:00.000Z", "belfry-attempt": "1",
		"belfry-fence": strconv.FormatUint(fence, 10),
	} {
		r.Header.Set(name, value)
	}
	return r
}

func ExampleVerifier_Handler() {
	verifier, err := webhook.New(webhook.Config{Secrets: []string{ordersSecret}})
	if err != nil {
		panic(err)
	}
	orders := verifier.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d := webhook.FromContext(r.Context())
		fmt.Println("close", d.Events[0].Task, string(d.Body))
		w.WriteHeader(http.StatusNoContent)
	}))
	for _, r := range []*http.Request{signed(8842), signed(8841), httptest.NewRequest("POST", "/orders", strings.NewReader(closeOrder))} {
		w := httptest.NewRecorder()
		orders.ServeHTTP(w, r)
		fmt.Println(strings.TrimSpace(fmt.Sprint(w.Code, " ", w.Body)))
	}
	// Output:
	// close order-1042-close {"order": 1042}
	// 204
	// 409 the sender has been superseded: fence 8841 of task order-1042-close
	// 400 the request is not a delivery: webhook-id is absent, or has a dot
}

func ExampleVerifier_Verify() {
	verifier, err := webhook.New(webhook.Config{Secrets: []string{ordersSecret}, Tolerance: time.Minute})
	if err != nil {
		panic(err)
	}
	r := signed(8842)
	d, err := verifier.Verify(context.Background(), r.Header, []byte(closeOrder))
	fmt.Println(d.ID, d.Events[0].Attempt, err)
	_, err = verifier.Verify(context.Background(), r.Header, []byte(`{"order": 1043}`))
	fmt.Println(errors.Is(err, webhook.ErrSignature))
	// Output:
	// msg_5-8841-1 1 <nil>
	// true
}
