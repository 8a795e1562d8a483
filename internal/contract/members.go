package contract

import "fmt"

// Member reads the value of a member. full is the member's name with those of the enclosing objects, for errors. merged
// is set in a merge patch (RFC 7396), where a null restores the default.
type Member func(r *Reader, full string, merged bool) error

// Members are the members that an object may have, by name. They are for the objects of rare calls: an Object is read
// faster, but its members need a bit of a Set each.
type Members map[string]Member

// Into returns the member whose value read reads into place. In a merge patch a null sets the zero value.
func Into[T any](place *T, read func(r *Reader, full string) (T, error)) Member {
	return func(r *Reader, full string, merged bool) (err error) {
		if merged && r.Null() {
			*place = *new(T)
			return nil
		}
		*place, err = read(r, full)
		return err
	}
}

// Text returns the member whose value is a string.
func Text(place *string) Member { return Into(place, (*Reader).Text) }

// Bool returns the member whose value is true or false.
func Bool(place *bool) Member { return Into(place, (*Reader).Bool) }

// Whole returns the member whose value is a whole number from least to most.
func Whole[T int | int64 | uint32 | uint64](place *T, least, most int64) Member {
	return Into(place, func(r *Reader, full string) (T, error) {
		n, err := r.Whole(full, least, most)
		return T(n), err
	})
}

// SetByService is the Member that only answers have.
func SetByService(_ *Reader, full string, _ bool) error {
	return &MemberError{Name: full, Detail: "is set by the service and cannot be sent"}
}

// Root reads a text that is one object. It refuses members that are unknown or given twice.
func (m Members) Root(text []byte, merged bool) error {
	r := NewReader(text)
	if r.Peek() != '{' {
		return r.notObject()
	}
	if err := m.read(r, "the body", "", merged); err != nil {
		return err
	}
	return r.End()
}

// Optional reads a text as Root does, or an empty text, which names no member.
func (m Members) Optional(text []byte) error {
	if len(text) == 0 {
		return nil
	}
	return m.Root(text, false)
}

// Object reads the value of the member full, an object, as Root reads a text.
func (m Members) Object(r *Reader, full string, merged bool) error {
	return m.read(r, full, full+".", merged)
}

func (m Members) read(r *Reader, name, prefix string, merged bool) error {
	seen := make(map[string]bool, len(m))
	return r.Each(name, func(raw []byte) error {
		member, full := string(raw), prefix+Clip(string(raw))
		read, known := m[member]
		switch {
		case !known:
			return &MemberError{Name: full, Detail: "is not a field that is known"}
		case seen[member]:
			return Twice(full)
		}
		seen[member] = true
		return read(r, full, merged)
	})
}

// List reads the value of the member full, an array, each element by read. It returns tooMany if there are more than
// most elements.
func List[T any](r *Reader, full string, most int, tooMany error, read func(r *Reader, full string) (T, error),
) (list []T, err error) {
	err = r.Array(full, func(i int) error {
		if i == most {
			return tooMany
		}
		one, err := read(r, fmt.Sprintf("%s[%d]", full, i))
		list = append(list, one)
		return err
	})
	return list, err
}
