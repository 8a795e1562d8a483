// Package amqpwire reads and writes the frames of AMQP 0-9-1, and reads the tables and the properties in them.
//
//	frame     type, channel, size, payload, and the octet 0xCE
//	method    its number, and the few arguments that the caller asks for
//	content   properties, as the values that amqp091-go publishes
//
// # Bounds
//
//   - A frame is at most as long as the peers have agreed on. Nothing is allocated for a longer one.
//   - A table is at most as long as the frame that holds it, and tables are nested 32 deep at most.
//
// Why not:
//
//   - The codec of amqp091-go: it is not exported, and reads only what a client is sent.
//   - garagemq, whose package amqp reads the frames of clients: it comes with a broker and its databases. It reads each
//     method into a struct and writes the struct again. A proxy must pass on methods and values that it does not know,
//     byte for byte, and reads a dozen methods.
package amqpwire
