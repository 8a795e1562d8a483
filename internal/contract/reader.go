package contract

import "unicode/utf8"

// MaxDepth is the deepest nesting of a payload. Receivers' parsers commonly stop at this depth or earlier.
const MaxDepth = 1000

// Reader reads one JSON text from its beginning to its end. It never recurses, and every byte that it has passed is
// well-formed UTF-8 JSON. Results alias the text unless the method's comment states otherwise. Errors are a
// *SyntaxError, a *MemberError, or an error of a function that the caller passed.
type Reader struct {
	data []byte
	pos  int // 0 <= pos <= len(data)
}

// NewReader returns a reader of the text. The text must not change while the reader or its results are in use.
func NewReader(text []byte) *Reader { return &Reader{data: text} }

func (r *Reader) fail(detail string) error { return r.failAt(r.pos, detail) }

func (r *Reader) failAt(pos int, detail string) error {
	return &SyntaxError{Offset: utf8.RuneCount(r.data[:pos]), Detail: detail}
}

// Peek skips white space and returns the first byte of the next token, or 0 at the end.
func (r *Reader) Peek() (c byte) {
	c, r.pos = r.token(r.pos)
	return c
}

// token returns the first byte from i on that is no white space, and its index. The byte is 0 at the end.
func (r *Reader) token(i int) (c byte, at int) {
	if i < len(r.data) && r.data[i] > ' ' {
		return r.data[i], i
	}
	return r.afterSpace(i)
}

func (r *Reader) afterSpace(i int) (c byte, at int) {
	for ; i < len(r.data); i++ {
		switch c := r.data[i]; c {
		case ' ', '\t', '\n', '\r':
		default:
			return c, i
		}
	}
	return 0, i
}

// AtEnd reports whether only white space is left.
func (r *Reader) AtEnd() bool { return r.Peek() == 0 && r.pos == len(r.data) }

// End returns an error if anything but white space is left.
func (r *Reader) End() error {
	if !r.AtEnd() {
		return r.fail("something follows the end of the JSON value")
	}
	return nil
}

// Root reads a text that is one object with the members of o. It adds the members to seen, and calls member before each
// value. member must consume the value.
func (r *Reader) Root(o *Object, seen *Set, member func(Field) error) error {
	if r.Peek() != '{' {
		return r.notObject()
	}
	if err := r.members(o, seen, member); err != nil {
		return err
	}
	return r.End()
}

// notObject returns the error for a text that is no object, or no JSON at all.
func (r *Reader) notObject() error {
	if r.pos == len(r.data) {
		return r.fail("the body is empty, and it ends")
	}
	if err := r.Skip(); err != nil {
		return err
	}
	return &SyntaxError{Offset: -1, Detail: "must be a JSON object"}
}

// Object reads the value of the member name as Root reads a text, but leaves the text after the value unread.
func (r *Reader) Object(name string, o *Object, seen *Set, member func(Field) error) error {
	if r.Peek() != '{' {
		return r.WrongType(name, "an object")
	}
	return r.members(o, seen, member)
}

// SkipMember passes the value of a member. It refuses members that the API does not know in a target, in the rules of
// retries or in a follow-up.
func (r *Reader) SkipMember(f Field) error {
	var o *Object
	switch f {
	case Target:
		o = &TargetObject
	case Retry:
		o = &RetryObject
	case OnDelivered, OnDead:
		o = &FollowUpObject
	default:
		return r.Skip()
	}
	var seen Set
	return r.Object(f.String(), o, &seen, r.SkipMember)
}

func (r *Reader) members(o *Object, seen *Set, member func(Field) error) error {
	for first := true; ; first = false {
		name, more, err := r.next(first)
		if !more {
			return err
		}
		f, err := o.admit(seen, name)
		if err != nil {
			return err
		}
		if err := member(f); err != nil {
			return err
		}
	}
}

// Each reads the value of the member name, an object with any members, and calls member before each value. member must
// consume the value.
func (r *Reader) Each(name string, member func(name []byte) error) error {
	if r.Peek() != '{' {
		return r.WrongType(name, "an object")
	}
	for first := true; ; first = false {
		name, more, err := r.next(first)
		if !more {
			return err
		}
		if err := member(name); err != nil {
			return err
		}
	}
}

// Known reads the value of the member name, an object of an answer, and calls member before each value. member must
// consume the value. Known skips members that this version does not know, and nulls, except the payload's. The
// expected member is found without a search: the first one is an argument, each further one a result of member.
func (r *Reader) Known(name string, expected Field, member func(Field) (expected Field, err error)) error {
	if r.Peek() != '{' {
		return r.WrongType(name, "an object")
	}
	for first := true; ; first = false {
		f := expected
		if !r.skipExpected(f, first) {
			name, more, err := r.next(first)
			if !more {
				return err
			}
			f = FieldOf(name)
		}
		var err error
		switch {
		case f == Unknown:
			err = r.Skip()
		case f == Payload || !r.Null():
			expected, err = member(f)
		}
		if err != nil {
			return err
		}
	}
}

// skipExpected passes what next passes, if that is the name of f without white space.
func (r *Reader) skipExpected(f Field, first bool) bool {
	i, text := r.pos, members[f]
	if first {
		i, text = i+1, text[1:] // a brace precedes the name, and no comma
	}
	if len(r.data)-i < len(text) || string(r.data[i:i+len(text)]) != text {
		return false
	}
	r.pos = i + len(text)
	return true
}

// next passes the opening brace or the comma before a member, and reads the member's name with the colon. more is false
// at the end of the object.
func (r *Reader) next(first bool) (name []byte, more bool, err error) {
	c, i := r.token(r.pos)
	switch {
	case c == '}' && !first:
		r.pos = i + 1
		return nil, false, nil
	case c != ',' && !first:
		return nil, false, r.failAt(i, "a comma or the closing brace is missing")
	}
	if c, i = r.token(i + 1); c == '}' && first {
		r.pos = i + 1
		return nil, false, nil
	}
	if c != '"' {
		return nil, false, r.failAt(i, "a member's name must be a string")
	}
	if name, i, err = r.unquoted(i); err != nil {
		return nil, false, err
	}
	if c, i = r.token(i); c != ':' {
		return nil, false, r.failAt(i, "a colon is missing")
	}
	r.pos = i + 1
	return name, true, nil
}

// Array reads the value of the member name, an array, and calls element before each value. element must consume the
// value.
func (r *Reader) Array(name string, element func(i int) error) error {
	if r.Peek() != '[' {
		return r.WrongType(name, "an array")
	}
	r.pos++
	if r.Peek() == ']' {
		r.pos++
		return nil
	}
	for i := 0; ; i++ {
		if err := element(i); err != nil {
			return err
		}
		switch r.Peek() {
		case ',':
			r.pos++
		case ']':
			r.pos++
			return nil
		default:
			return r.fail("a comma or the closing bracket is missing")
		}
	}
}
