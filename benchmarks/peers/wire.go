package main

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"strconv"
	"strings"
)

// A wire is a connection that sends one request again and again. It costs as little as a client can, so that a figure
// is mostly the server's.
type wire struct {
	conn    net.Conn
	in      *bufio.Reader
	out     []byte
	keyFrom int // where the key is in out
}

// keyDigits is the length of a key's number. A key has the length and the form of a UUIDv4, which fiber wants.
const keyDigits = 12

func dial(addr, route string, payload []byte) (*wire, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	const mark = "Idempotency-Key: 5f0e8a6b-7b1e-4c3a-9d42-"
	head := strings.Join([]string{
		"POST " + route + " HTTP/1.1", "Host: " + addr, "Content-Type: application/json",
		fmt.Sprintf("Content-Length: %d", len(payload)), mark + strings.Repeat("0", keyDigits), "", "",
	}, "\r\n")
	return &wire{
		conn: conn, in: bufio.NewReader(conn), out: append([]byte(head), payload...),
		keyFrom: strings.Index(head, mark) + len(mark),
	}, nil
}

// A response is the part of a response that is checked.
type response struct {
	status   int
	replayed bool // a header marks it
	body     string
}

// post sends the request under the key with the number, and reads the response.
func (w *wire) post(key int64) (response, error) {
	if err := w.send(key); err != nil {
		return response{}, err
	}
	return w.receive()
}

func (w *wire) send(key int64) error {
	for i := range keyDigits {
		w.out[w.keyFrom+keyDigits-1-i] = '0' + byte(key%10)
		key /= 10
	}
	_, err := w.conn.Write(w.out)
	return err
}

func (w *wire) receive() (got response, err error) {
	line, err := w.in.ReadSlice('\n')
	if err != nil {
		return got, err
	}
	if len(line) < len("HTTP/1.1 201") {
		return got, fmt.Errorf("benchmarks: the status line is %q", line)
	}
	if got.status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return got, err
	}
	length := -1
	for {
		if line, err = w.in.ReadSlice('\n'); err != nil {
			return got, err
		}
		if line = bytes.TrimRight(line, "\r\n"); len(line) == 0 {
			break
		}
		name, value, _ := bytes.Cut(line, []byte(": "))
		switch {
		case bytes.EqualFold(name, []byte("Content-Length")):
			if length, err = strconv.Atoi(string(value)); err != nil {
				return got, err
			}
		case bytes.EqualFold(name, []byte("Idempotency-Status")):
			got.replayed = string(value) == "replayed"
		}
	}
	if length < 0 {
		return got, fmt.Errorf("benchmarks: the response has no Content-Length")
	}
	body, err := w.in.Peek(length)
	if err != nil {
		return got, err
	}
	got.body = string(body)
	_, err = w.in.Discard(length)
	return got, err
}

func (w *wire) close() error { return w.conn.Close() }
