// Package belfrytest runs Belfry inside a test, with a clock that the test sets ahead. A test of "after 48 hours" takes
// milliseconds.
//
//	func TestUnpaidOrderIsClosed(t *testing.T) {
//		belfry := belfrytest.New(t)
//		shop := belfry.Receiver()
//		_, err := belfry.Client().Schedule(t.Context(), client.Task{
//			ID: "order-1-close", Delay: 48 * time.Hour, Target: &client.Target{URL: shop.URL},
//		})
//		if err != nil {
//			t.Fatal(err)
//		}
//		belfry.Advance(48 * time.Hour)
//		if got := shop.Next(t); got.TaskID != "order-1-close" {
//			t.Errorf("%+v", got)
//		}
//	}
//
// A Server is a real node, with its log, its wheel and its deliveries, in the process of the test. Any number of them
// run side by side. A test in another language starts one with `belfry dev`, and calls POST /v1/dev/advance.
//
// # What an advance does
//
// Advance takes the clock from one instant to the next at which something is due, and lets the attempts of each instant
// end before it goes on. So retries, ended leases, and tasks that a receiver schedules before it answers come due in
// order, as in production. Attempts that come due at the end of an advance have begun when it returns. Next waits
// for their deliveries. Advance waits at most two seconds for a receiver that does not answer. The attempt there times
// out when the clock passes its timeout.
//
// A finished task can be read after any advance, so that a test asserts its state with Client.Get. Only a KeepDone
// of its queue ends that, by the Server's clock.
//
// The signatures of webhooks, the limits max_in_flight and max_per_second, and API keys keep the machine's time.
package belfrytest
