package delivery_test

import "testing"

// Every scenario on one cluster, one after the other.
func TestDelivery(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and runs real nodes")
	}
	s := setStage(t)
	play := func(name string, scenario func(*testing.T, *stage)) {
		t.Run(name, func(t *testing.T) { scenario(t, s) })
	}
	play("hostile receivers", sufferHostiles)
	play("storm", weatherStorm)
	play("storm with jitter", spreadStorm)
}
