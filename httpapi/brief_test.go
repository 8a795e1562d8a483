package httpapi

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/belfryhq/belfry/internal/assert"
)

// TestUnreadAnswersAreCutOff opens more streams than a connection may have, takes no byte of any answer, and has no
// credentials. The streams beyond the limit are refused, and the others end soon.
func TestUnreadAnswersAreCutOff(t *testing.T) {
	const most = 100
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t).inMemory()
		c := h.connect()
		began := time.Now()
		send(t, c, http2.ClientPreface)
		f := http2.NewFramer(c, c)
		mustDo(t, f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}))
		var head bytes.Buffer
		encoder := hpack.NewEncoder(&head)
		go func() {
			for i := range uint32(most + 1) {
				head.Reset()
				for _, field := range [][2]string{
					{":method", "GET"}, {":scheme", "http"}, {":authority", "x"}, {":path", []string{"/openapi.yaml", "/none"}[i%2]},
				} {
					_ = encoder.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]})
				}
				_ = f.WriteHeaders(http2.HeadersFrameParam{
					StreamID: 2*i + 1, BlockFragment: head.Bytes(), EndHeaders: true, EndStream: true,
				})
			}
		}()
		var soon, late int
		for soon+late <= most {
			frame, err := f.ReadFrame()
			assert.NoError(t, err, "%d streams refused and %d cut off, then", soon, late)
			switch r, ok := frame.(*http2.RSTStreamFrame); {
			case ok && r.ErrCode == http2.ErrCodeRefusedStream:
				soon++
			case ok:
				late++
			}
		}
		if soon != 1 || time.Since(began) > briefTime+time.Second {
			t.Errorf("%d streams refused and %d cut off after %v", soon, late, time.Since(began))
		}
		synctest.Wait()
		assert.Equal(t, h.server.unknown.callers.Taken(), 0, "places are taken")
	})
}
