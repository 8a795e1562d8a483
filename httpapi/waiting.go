package httpapi

import (
	"log/slog"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/belfryhq/belfry/httpapi/origin"
)

// Waiting answers for a node that has not opened its data, because it waits for something: 503 with the reason to every
// call, /healthz included. Only /metrics says what it always does, as far as there is anything to measure. Calls that
// the policy refuses are refused here too; nil is the zero Policy.
func Waiting(reason func() string, policy *origin.Policy, metrics prometheus.Gatherer, log *slog.Logger) http.Handler {
	if policy == nil {
		policy = new(origin.Policy)
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		refuse(w, r, &problem{kind: notReady, detail: reason(), committed: "no", retryAfter: 1}, log)
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p := foreignProblem(policy, r); p != nil {
			refuse(w, r, p, log)
			return
		}
		mux.ServeHTTP(w, r)
	})
}
