package main

import "sync"

// State is the state of an order.
type State string

// The states of an order.
const (
	open   State = "open"
	paid   State = "paid"
	closed State = "closed"
)

// Orders keeps the states of orders in memory. A real shop keeps them in its database.
type Orders struct {
	mu     sync.Mutex
	states map[string]State
}

func newOrders() *Orders { return &Orders{states: map[string]State{}} }

// Move changes the state of an order if the order is in the state from, and returns the state afterwards. An order that
// does not exist has the empty state. In SQL: UPDATE orders SET state = $to WHERE id = $id AND state = $from.
func (o *Orders) Move(id string, from, to State) State {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.states[id] == from {
		o.states[id] = to
	}
	return o.states[id]
}

// State returns the state of an order.
func (o *Orders) State(id string) State {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.states[id]
}
