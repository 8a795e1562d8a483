package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/client/webhook"
)

const (
	queue   = "orders"
	payTime = 30 * time.Minute // an order that is not paid for so long is closed
)

// Shop takes orders over HTTP.
//
//	PUT  /orders/{id}       places an order
//	PUT  /orders/{id}/paid  marks the order as paid
//	GET  /orders/{id}       shows the order
//	POST /hooks/close       is for Belfry alone
type Shop struct {
	http.Handler

	belfry *client.Client
	orders *Orders
}

// New returns a shop without orders. Belfry signs its webhooks with secret.
func New(belfry *client.Client, secret string) (*Shop, error) {
	verifier, err := webhook.New(webhook.Config{Secrets: []string{secret}})
	if err != nil {
		return nil, err
	}
	s := &Shop{belfry: belfry, orders: newOrders()}
	routes := http.NewServeMux()
	routes.HandleFunc("PUT /orders/{id}", s.place)
	routes.HandleFunc("PUT /orders/{id}/paid", s.pay)
	routes.HandleFunc("GET /orders/{id}", s.show)
	routes.Handle("POST /hooks/close", verifier.Handler(http.HandlerFunc(s.closeUnpaid)))
	s.Handler = routes
	return s, nil
}

// SetQueue gives the queue of the shop its webhook and the secret of the signatures.
func SetQueue(ctx context.Context, belfry *client.Client, url, secret string) error {
	_, err := belfry.PutQueue(ctx, client.Queue{
		Name: queue, Target: &client.Target{URL: url}, Secrets: []string{secret},
	})
	return err
}

// order is the payload of a task.
type order struct {
	ID string `json:"order"`
}

// place schedules the close of an order, and then keeps the order. A task without an order closes nothing. An order
// without a task would stay open for ever.
func (s *Shop) place(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	payload, err := json.Marshal(order{ID: id})
	if err != nil {
		fail(w, http.StatusInternalServerError, err)
		return
	}
	_, err = s.belfry.Schedule(r.Context(), client.Task{
		ID: taskID(id), Queue: queue, Delay: payTime, Payload: payload,
	}, client.IfAbsent())
	if err != nil && !errors.Is(err, client.ErrPrecondition) { // a repeated order finds its task
		fail(w, http.StatusServiceUnavailable, err)
		return
	}
	answer(w, id, s.orders.Move(id, "", open), "")
}

// pay marks an order as paid, and cancels its task.
func (s *Shop) pay(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	if state := s.orders.Move(id, open, paid); state != paid {
		fail(w, http.StatusConflict, errors.New("the order is "+string(state)))
		return
	}
	outcome, err := s.belfry.Cancel(r.Context(), taskID(id))
	if err != nil && !errors.Is(err, client.ErrNotFound) { // the task of an old payment is forgotten
		fail(w, http.StatusServiceUnavailable, err)
		return
	}
	answer(w, id, paid, outcome)
}

// closeUnpaid handles the webhook. A repeat finds no open order, and changes nothing.
func (s *Shop) closeUnpaid(w http.ResponseWriter, r *http.Request) {
	var o order
	if err := json.Unmarshal(webhook.FromContext(r.Context()).Body, &o); err != nil {
		fail(w, http.StatusBadRequest, err)
		return
	}
	s.orders.Move(o.ID, open, closed)
	w.WriteHeader(http.StatusNoContent)
}

// show answers with the state of an order.
func (s *Shop) show(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	answer(w, id, s.orders.State(id), "")
}

// taskID derives the id of the task from the order's, so that no table of tasks is needed.
func taskID(order string) string { return "order-" + order + "-close" }

// answer writes the state of an order, and the outcome of the cancel if there was one.
func answer(w http.ResponseWriter, id string, state State, outcome client.Outcome) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(struct { // fails only if the caller has gone
		ID     string         `json:"order"`
		State  State          `json:"state"`
		Cancel client.Outcome `json:"cancel,omitempty"`
	}{id, state, outcome})
}

func fail(w http.ResponseWriter, status int, err error) { http.Error(w, err.Error(), status) }
