package receiver

import (
	"net/http"
	"testing"
	"time"
)

func TestVerify(t *testing.T) {
	secret, err := ParseSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		t.Fatal(err)
	}
	other := []byte("another secret of 24 byte")
	const good = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
	at := time.Unix(1614265330, 0)
	tests := map[string]struct {
		signature, body string
		at              time.Time
		secrets         [][]byte
		want            error
	}{
		"good":            {good, `{"test": 2432232314}`, at, [][]byte{secret}, nil},
		"second secret":   {good, `{"test": 2432232314}`, at, [][]byte{other, secret}, nil},
		"in a rotation":   {"v1,AAAA v2,x " + good, `{"test": 2432232314}`, at, [][]byte{secret}, nil},
		"four minutes":    {good, `{"test": 2432232314}`, at.Add(4 * time.Minute), [][]byte{secret}, nil},
		"a replay":        {good, `{"test": 2432232314}`, at.Add(6 * time.Minute), [][]byte{secret}, ErrStale},
		"from the future": {good, `{"test": 2432232314}`, at.Add(-6 * time.Minute), [][]byte{secret}, ErrStale},
		"another body":    {good, `{"test": 2432232315}`, at, [][]byte{secret}, ErrForged},
		"another secret":  {good, `{"test": 2432232314}`, at, [][]byte{other}, ErrForged},
		"no secret":       {good, `{"test": 2432232314}`, at, nil, ErrForged},
		"another scheme":  {"v2" + good[2:], `{"test": 2432232314}`, at, [][]byte{secret}, ErrForged},
		"not signed":      {"", `{"test": 2432232314}`, at, [][]byte{secret}, ErrUnsigned},
	}
	for name, test := range tests {
		h := http.Header{"Webhook-Id": {"msg_p5jXN8AQM9LWM0D4loKWxJek"}, "Webhook-Timestamp": {"1614265330"},
			"Webhook-Signature": {test.signature}}
		a := Arrival{At: test.at, Header: h, Request: []byte(test.body)}
		if err := Verify(a, test.secrets...); err != test.want {
			t.Errorf("%s: %v, want %v", name, err, test.want)
		}
	}
	for _, text := range []string{"", "whsec_", "whsec_%%%", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"} {
		if _, err := ParseSecret(text); err == nil {
			t.Errorf("%q was taken for a secret", text)
		}
	}
}
