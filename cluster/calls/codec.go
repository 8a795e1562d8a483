package calls

import (
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// frequent is a message with generated code, which needs no reflection: of clusterpb's forward.proto, and of package
// fsmpb. The bytes are those of protobuf's library.
type frequent interface {
	SizeVT() int
	MarshalToSizedBufferVT(b []byte) (int, error)
	UnmarshalVTUnsafe(b []byte) error
}

// encodeRare encodes a message with protobuf's library. If that fails, perhaps since text is not UTF-8, it encodes a
// copy with such text repaired.
func encodeRare(m proto.Message) ([]byte, error) {
	b, err := proto.Marshal(m)
	if err != nil {
		m = proto.Clone(m)
		repair(m.ProtoReflect())
		b, err = proto.Marshal(m)
	}
	return b, err
}

// encode returns the encoding of a message, which is not nil.
func encode(m proto.Message) ([]byte, error) {
	f, ok := m.(frequent)
	if !ok {
		return encodeRare(m)
	}
	b := make([]byte, f.SizeVT())
	_, err := f.MarshalToSizedBufferVT(b)
	return b, err
}

// decode returns the message of an encoding. The text and the bytes of a frequent message point into it.
func decode[M proto.Message](encoded []byte) (M, error) {
	var none M
	m := none.ProtoReflect().New().Interface().(M) //nolint:forcetypeassert // a message makes its own type
	if f, ok := any(m).(frequent); ok {
		return m, f.UnmarshalVTUnsafe(encoded)
	}
	return m, proto.Unmarshal(encoded, m)
}

// repair makes all text in a message UTF-8. The library refuses other text, which the text of an error may be: it may
// hold the name of a file.
func repair(m protoreflect.Message) {
	fix := func(kind protoreflect.Kind, v protoreflect.Value, set func(protoreflect.Value)) {
		switch kind {
		case protoreflect.StringKind:
			set(protoreflect.ValueOfString(strings.ToValidUTF8(v.String(), "\uFFFD")))
		case protoreflect.MessageKind:
			repair(v.Message())
		}
	}
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.IsList():
			for i := range v.List().Len() {
				fix(f.Kind(), v.List().Get(i), func(fixed protoreflect.Value) { v.List().Set(i, fixed) })
			}
		case f.IsMap():
			v.Map().Range(func(key protoreflect.MapKey, element protoreflect.Value) bool {
				fix(f.MapValue().Kind(), element, func(fixed protoreflect.Value) { v.Map().Set(key, fixed) })
				return true
			})
		default:
			fix(f.Kind(), v, func(fixed protoreflect.Value) { m.Set(f, fixed) })
		}
		return true
	})
}
