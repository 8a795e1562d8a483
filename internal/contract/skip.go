package contract

// Value reads one value of any kind and returns its text, byte for byte, without the white space before and after it.
func (r *Reader) Value() ([]byte, error) {
	r.Peek()
	begin := r.pos
	if err := r.Skip(); err != nil {
		return nil, err
	}
	return r.data[begin:r.pos], nil
}

// nesting is the stack of open brackets, with one bit for each: 1 for an object, 0 for an array.
type nesting struct {
	depth   int
	objects [MaxDepth/64 + 1]uint64
}

func (n *nesting) push(object bool) {
	word, bit := n.depth/64, uint64(1)<<(n.depth%64)
	n.objects[word] &^= bit
	if object {
		n.objects[word] |= bit
	}
	n.depth++
}

func (n *nesting) inObject() bool {
	d := n.depth - 1
	return n.objects[d/64]&(1<<(d%64)) != 0
}

// Skip passes one value. Its stack has one bit for each level, so that depth costs neither goroutine stack nor memory.
func (r *Reader) Skip() error {
	end, err := r.skipValue(r.pos)
	if err == nil {
		r.pos = end
	}
	return err
}

// Each method below passes a piece of the text that begins at index i, and returns the index after the piece. The index
// travels in parameters and results, and not in r.pos, since the store and the load of each token would slow Skip by a
// fifth.

func (r *Reader) skipValue(i int) (end int, err error) {
	c, i := r.token(i)
	if c != '{' && c != '[' {
		return r.skipScalar(c, i)
	}
	var open nesting
	for {
		opened := c == '{' || c == '['
		if opened {
			i, opened, err = r.skipOpening(c, i, &open)
		} else {
			i, err = r.skipScalar(c, i)
		}
		if !opened && err == nil {
			i, err = r.closeAll(i, &open)
		}
		if err != nil || open.depth == 0 {
			return i, err
		}
		c, i = r.token(i)
	}
}

// skipOpening passes the opening bracket c, and in an object the first member's name too. opened is false if the
// closing bracket follows, which closeAll passes.
func (r *Reader) skipOpening(c byte, i int, open *nesting) (end int, opened bool, err error) {
	if open.depth == MaxDepth {
		return i, false, r.failAt(i, "it is nested more than 1000 deep")
	}
	open.push(c == '{')
	next, i := r.token(i + 1)
	switch {
	case next == c+2: // each closing bracket is two after its opening one
		return i, false, nil
	case c == '{':
		i, err = r.skipName(next, i)
	}
	return i, true, err
}

// skipScalar passes a value that begins with c and is neither an array nor an object.
func (r *Reader) skipScalar(c byte, i int) (end int, err error) {
	switch c {
	case '"':
		end, _, err = r.skipString(i)
		return end, err
	case 't':
		return r.skipWord(i, "true")
	case 'f':
		return r.skipWord(i, "false")
	case 'n':
		return r.skipWord(i, "null")
	}
	return r.skipNumber(i)
}

// closeAll passes the closing brackets after a value. If another value must follow, it passes the comma too, and in an
// object that value's name.
func (r *Reader) closeAll(i int, open *nesting) (end int, err error) {
	for open.depth > 0 {
		object := open.inObject()
		c, at := r.token(i)
		i = at + 1
		switch {
		case c == '}' && object, c == ']' && !object:
			open.depth--
		case c == ',' && object:
			return r.skipName(r.token(i))
		case c == ',':
			return i, nil
		default:
			return at, r.failAt(at, "a comma or a closing bracket is missing")
		}
	}
	return i, nil
}

// skipName passes a member's name, which begins with c, and the colon.
func (r *Reader) skipName(c byte, i int) (end int, err error) {
	if c != '"' {
		return i, r.failAt(i, "a member's name must be a string")
	}
	if i, _, err = r.skipString(i); err != nil {
		return i, err
	}
	if c, i = r.token(i); c != ':' {
		return i, r.failAt(i, "a colon is missing")
	}
	return i + 1, nil
}

func (r *Reader) skipWord(i int, word string) (end int, err error) {
	if len(r.data)-i < len(word) || string(r.data[i:i+len(word)]) != word {
		return i, r.failAt(i, "a value is missing or misspelt")
	}
	return i + len(word), nil
}

// skipNumber passes -?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?
func (r *Reader) skipNumber(i int) (end int, err error) {
	if r.at(i, '-') {
		i++
	}
	if end = r.skipDigits(i); end == i {
		return i, r.failAt(i, "a value is missing or misspelt")
	}
	if r.data[i] == '0' {
		end = i + 1 // a digit after it is an error of the caller's next token
	}
	if i = end; r.at(i, '.') {
		if end = r.skipDigits(i + 1); end == i+1 {
			return end, r.failAt(end, "a number has no digits after its point")
		}
	}
	if i = end; r.at(i, 'e') || r.at(i, 'E') {
		if i++; r.at(i, '+') || r.at(i, '-') {
			i++
		}
		if end = r.skipDigits(i); end == i {
			return i, r.failAt(i, "a number has no digits in its exponent")
		}
	}
	return end, nil
}

func (r *Reader) at(i int, c byte) bool { return i < len(r.data) && r.data[i] == c }

func (r *Reader) skipDigits(i int) (end int) {
	for i < len(r.data) && '0' <= r.data[i] && r.data[i] <= '9' {
		i++
	}
	return i
}
