package redisapi

import (
	"strconv"
	"strings"
)

// writer gathers answers in RESP2, or RESP3 after HELLO 3.
type writer struct {
	out   []byte
	resp3 bool
}

func (w *writer) simple(text string) { w.line('+', text) }

// failed writes an error, whose text begins with its code.
func (w *writer) failed(err error) {
	const most = 1024
	text := strings.Map(func(c rune) rune {
		if c < ' ' {
			return ' '
		}
		return c
	}, err.Error())
	w.line('-', text[:min(len(text), most)])
}

func (w *writer) integer(n int) { w.line(':', strconv.Itoa(n)) }

func (w *writer) bulk(text string) {
	w.line('$', strconv.Itoa(len(text)))
	w.out = append(append(w.out, text...), "\r\n"...)
}

// double writes a score: a text in RESP2.
func (w *writer) double(score float64) {
	if w.resp3 {
		w.line(',', scoreText(score))
		return
	}
	w.bulk(scoreText(score))
}

func (w *writer) null() {
	if w.resp3 {
		w.out = append(w.out, "_\r\n"...)
		return
	}
	w.out = append(w.out, "$-1\r\n"...)
}

// array begins an array of n elements.
func (w *writer) array(n int) { w.line('*', strconv.Itoa(n)) }

// pairs begins a map of n keys: an array of keys and values in RESP2.
func (w *writer) pairs(n int) {
	if w.resp3 {
		w.line('%', strconv.Itoa(n))
		return
	}
	w.array(2 * n)
}

func (w *writer) line(kind byte, text string) {
	w.out = append(append(append(w.out, kind), text...), "\r\n"...)
}
