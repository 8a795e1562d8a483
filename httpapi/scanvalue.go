package httpapi

// value passes one value of any kind and returns its text, byte for byte, without the white space around it.
func (s *scanner) value() ([]byte, error) {
	s.peek()
	begin := s.pos
	if err := s.skipValue(); err != nil {
		return nil, err
	}
	return s.data[begin:s.pos], nil
}

// nesting remembers for each open bracket whether it is an object's, a bit each.
type nesting struct {
	depth   int
	objects [maxDepth/64 + 1]uint64
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

// skipValue passes one value. It is a loop with a stack of bits, so depth costs neither goroutine stack nor memory.
func (s *scanner) skipValue() error {
	var open nesting
	for {
		opened, err := s.skipToken(&open)
		if err != nil {
			return err
		}
		if opened {
			continue
		}
		done, err := s.closeAll(&open)
		if done || err != nil {
			return err
		}
	}
}

// skipToken passes a scalar or an opening bracket with, in an object, its first member's name. It tells whether a
// value must follow.
func (s *scanner) skipToken(open *nesting) (opened bool, err error) {
	c := s.peek()
	switch c {
	case '{', '[':
		if open.depth == maxDepth {
			return false, s.fail("it is nested more than 1000 deep")
		}
		open.push(c == '{')
		s.pos++
		next := s.peek()
		if next == ']' && c == '[' || next == '}' && c == '{' {
			return false, nil // closeAll passes the bracket
		}
		if c == '{' {
			return true, s.skipName()
		}
		return true, nil
	case '"':
		_, err := s.skipString()
		return false, err
	case 't':
		return false, s.skipWord("true")
	case 'f':
		return false, s.skipWord("false")
	case 'n':
		return false, s.skipWord("null")
	}
	return false, s.skipNumber()
}

// closeAll passes what may stand after a value: closing brackets, then a comma if another value must follow.
func (s *scanner) closeAll(open *nesting) (done bool, err error) {
	for open.depth > 0 {
		object := open.inObject()
		switch c := s.peek(); {
		case c == '}' && object, c == ']' && !object:
			s.pos++
			open.depth--
		case c == ',' && object:
			s.pos++
			return false, s.skipName()
		case c == ',':
			s.pos++
			return false, nil
		default:
			return false, s.fail("a comma or a closing bracket is missing")
		}
	}
	return true, nil
}

func (s *scanner) skipName() error {
	if s.peek() != '"' {
		return s.fail("a member's name must be a string")
	}
	if _, err := s.skipString(); err != nil {
		return err
	}
	if s.peek() != ':' {
		return s.fail("a colon is missing")
	}
	s.pos++
	return nil
}

func (s *scanner) skipWord(word string) error {
	if len(s.data)-s.pos < len(word) || string(s.data[s.pos:s.pos+len(word)]) != word {
		return s.fail("a value is missing or misspelt")
	}
	s.pos += len(word)
	return nil
}

// skipNumber passes -?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?
func (s *scanner) skipNumber() error {
	if s.at('-') {
		s.pos++
	}
	if s.at('0') {
		s.pos++
	} else if !s.skipDigits() {
		return s.fail("a value is missing or misspelt")
	}
	if s.at('.') {
		s.pos++
		if !s.skipDigits() {
			return s.fail("a number has no digits after its point")
		}
	}
	if s.at('e') || s.at('E') {
		s.pos++
		if s.at('+') || s.at('-') {
			s.pos++
		}
		if !s.skipDigits() {
			return s.fail("a number has no digits in its exponent")
		}
	}
	return nil
}

func (s *scanner) at(c byte) bool { return s.pos < len(s.data) && s.data[s.pos] == c }

func (s *scanner) skipDigits() bool {
	begin := s.pos
	for s.pos < len(s.data) && '0' <= s.data[s.pos] && s.data[s.pos] <= '9' {
		s.pos++
	}
	return s.pos > begin
}
