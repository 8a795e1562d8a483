package calls

import (
	"fmt"
	"strings"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Codec encodes and decodes gRPC's messages: the frequent ones with the code that is generated for them, without
// reflection, and the others with protobuf's library. The bytes are the same.
type Codec struct{}

// frequent is a message with generated code: of clusterpb's forward.proto, and of package fsmpb.
type frequent interface {
	SizeVT() int
	MarshalToSizedBufferVT(b []byte) (int, error)
	UnmarshalVTUnsafe(b []byte) error
}

// Name returns gRPC's name of protobuf.
func (Codec) Name() string { return "proto" }

// Marshal encodes a message.
func (Codec) Marshal(v any) (mem.BufferSlice, error) {
	switch m := v.(type) {
	case frequent:
		return fill(m.SizeVT(), m.MarshalToSizedBufferVT)
	case proto.Message:
		return encodeRare(m, func(m proto.Message) (mem.BufferSlice, error) {
			return fill(proto.Size(m), func(b []byte) (int, error) {
				b, err := proto.MarshalOptions{UseCachedSize: true}.MarshalAppend(b[:0], m)
				return len(b), err
			})
		})
	}
	return nil, fmt.Errorf("a %T cannot be sent", v)
}

// encodeRare encodes a message with protobuf's library. If that fails, perhaps since text is not UTF-8, it encodes a
// copy with such text repaired.
func encodeRare[B any](m proto.Message, marshal func(proto.Message) (B, error)) (B, error) {
	b, err := marshal(m)
	if err != nil {
		m = proto.Clone(m)
		repair(m.ProtoReflect())
		b, err = marshal(m)
	}
	return b, err
}

// encode returns the encoding of a message, which is not nil.
func encode(m proto.Message) ([]byte, error) {
	f, ok := m.(frequent)
	if !ok {
		return encodeRare(m, proto.Marshal)
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

// fill returns the bytes that write writes into a buffer of the given size.
func fill(size int, write func(b []byte) (int, error)) (mem.BufferSlice, error) {
	if mem.IsBelowBufferPoolingThreshold(size) {
		b := make([]byte, size)
		if _, err := write(b); err != nil {
			return nil, err
		}
		return mem.BufferSlice{mem.SliceBuffer(b)}, nil
	}
	pool := mem.DefaultBufferPool()
	b := pool.Get(size)
	if _, err := write((*b)[:size]); err != nil {
		pool.Put(b)
		return nil, err
	}
	return mem.BufferSlice{mem.NewBuffer(b, pool)}, nil
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

// Unmarshal decodes data into a message. The message keeps no reference to data: gRPC uses the buffers again. The text
// and the bytes of a frequent message point into one copy of data.
func (Codec) Unmarshal(data mem.BufferSlice, v any) error {
	switch m := v.(type) {
	case frequent:
		return m.UnmarshalVTUnsafe(data.Materialize())
	case proto.Message:
		b := data.MaterializeToBuffer(mem.DefaultBufferPool())
		defer b.Free()
		return proto.Unmarshal(b.ReadOnlyData(), m)
	}
	return fmt.Errorf("a %T cannot be received", v)
}
