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
	if c := r.Peek(); c != '{' && c != '[' {
		return r.skipScalar(c)
	}
	var open nesting
	for {
		opened, err := r.skipToken(&open)
		if err != nil {
			return err
		}
		if opened {
			continue
		}
		done, err := r.closeAll(&open)
		if done || err != nil {
			return err
		}
	}
}

// skipToken passes a scalar or an opening bracket, and in an object the first member's name too. opened reports whether
// a value must follow.
func (r *Reader) skipToken(open *nesting) (opened bool, err error) {
	c := r.Peek()
	switch c {
	case '{', '[':
		if open.depth == MaxDepth {
			return false, r.fail("it is nested more than 1000 deep")
		}
		open.push(c == '{')
		r.pos++
		next := r.Peek()
		if next == ']' && c == '[' || next == '}' && c == '{' {
			return false, nil // closeAll passes the bracket
		}
		if c == '{' {
			return true, r.skipName()
		}
		return true, nil
	}
	return false, r.skipScalar(c)
}

// skipScalar passes a value that begins with c and is neither an array nor an object.
func (r *Reader) skipScalar(c byte) error {
	switch c {
	case '"':
		_, err := r.skipString()
		return err
	case 't':
		return r.skipWord("true")
	case 'f':
		return r.skipWord("false")
	case 'n':
		return r.skipWord("null")
	}
	return r.skipNumber()
}

// closeAll passes the closing brackets after a value, then a comma if another value must follow.
func (r *Reader) closeAll(open *nesting) (done bool, err error) {
	for open.depth > 0 {
		object := open.inObject()
		switch c := r.Peek(); {
		case c == '}' && object, c == ']' && !object:
			r.pos++
			open.depth--
		case c == ',' && object:
			r.pos++
			return false, r.skipName()
		case c == ',':
			r.pos++
			return false, nil
		default:
			return false, r.fail("a comma or a closing bracket is missing")
		}
	}
	return true, nil
}

func (r *Reader) skipName() error {
	if r.Peek() != '"' {
		return r.fail("a member's name must be a string")
	}
	if _, err := r.skipString(); err != nil {
		return err
	}
	if r.Peek() != ':' {
		return r.fail("a colon is missing")
	}
	r.pos++
	return nil
}

func (r *Reader) skipWord(word string) error {
	if len(r.data)-r.pos < len(word) || string(r.data[r.pos:r.pos+len(word)]) != word {
		return r.fail("a value is missing or misspelt")
	}
	r.pos += len(word)
	return nil
}

// skipNumber passes -?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?
func (r *Reader) skipNumber() error {
	if r.at('-') {
		r.pos++
	}
	if r.at('0') {
		r.pos++
	} else if !r.skipDigits() {
		return r.fail("a value is missing or misspelt")
	}
	if r.at('.') {
		r.pos++
		if !r.skipDigits() {
			return r.fail("a number has no digits after its point")
		}
	}
	if r.at('e') || r.at('E') {
		r.pos++
		if r.at('+') || r.at('-') {
			r.pos++
		}
		if !r.skipDigits() {
			return r.fail("a number has no digits in its exponent")
		}
	}
	return nil
}

func (r *Reader) at(c byte) bool { return r.pos < len(r.data) && r.data[r.pos] == c }

func (r *Reader) skipDigits() bool {
	begin := r.pos
	for r.pos < len(r.data) && '0' <= r.data[r.pos] && r.data[r.pos] <= '9' {
		r.pos++
	}
	return r.pos > begin
}
