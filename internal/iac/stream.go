package iac

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// stream reads JSON from front to back and keeps only the requested value: plans can be gigabytes,
// and almost everything is skipped. In skipped parts it only checks brackets and strings.
type stream struct {
	r        io.Reader
	buf      []byte
	pos, end int   // the unread part of buf
	held     int   // where the value that is being taken starts in buf, -1 for none
	base     int64 // where in the file buf starts
	open     []byte
}

// window is how much of a file is read at once.
const window = 64 << 10

// maxDepth is how deep brackets may nest, as in encoding/json.
const maxDepth = 10_000

var (
	errCut     = errors.New("it is incomplete: it ends in the middle")
	errNesting = errors.New("its brackets are nested too deep")
)

func newStream(r io.Reader) *stream { return &stream{r: r, buf: make([]byte, window), held: -1} }

func (s *stream) fail(format string, args ...any) error {
	return fmt.Errorf("it is not valid JSON: at byte %d %s", s.base+int64(s.pos),
		fmt.Sprintf(format, args...))
}

// more reads on, and keeps the current value in the buffer.
func (s *stream) more() error {
	keep := s.pos
	if s.held >= 0 {
		keep = s.held
	}
	if keep > 0 {
		copy(s.buf, s.buf[keep:s.end])
		s.base += int64(keep)
		s.pos, s.end = s.pos-keep, s.end-keep
		if s.held >= 0 {
			s.held = 0
		}
	}
	if s.end == len(s.buf) {
		s.buf = append(s.buf, make([]byte, len(s.buf))...)
	}
	for range 100 {
		n, err := s.r.Read(s.buf[s.end:])
		s.end += n
		switch {
		case n > 0:
			return nil
		case err == io.EOF:
			return errCut
		case err != nil:
			return err
		}
	}
	return io.ErrNoProgress
}

// peek returns the next byte that is not a space.
func (s *stream) peek() (byte, error) {
	for {
		for ; s.pos < s.end; s.pos++ {
			switch c := s.buf[s.pos]; c {
			case ' ', '\t', '\r', '\n':
			default:
				return c, nil
			}
		}
		if err := s.more(); err != nil {
			return 0, err
		}
	}
}

// take reads a required byte.
func (s *stream) take(want byte) error {
	c, err := s.peek()
	if err != nil {
		return err
	}
	if c != want {
		return s.fail("%q is expected, not %q", want, c)
	}
	s.pos++
	return nil
}

// next moves to the next member or element, and returns false at the closing bracket.
func (s *stream) next(first bool, end byte) (bool, error) {
	c, err := s.peek()
	switch {
	case err != nil:
		return false, err
	case c == end:
		s.pos++
		return false, nil
	case first:
		return true, nil
	}
	return true, s.take(',')
}

// object reads an object; each must read the value of every key. It skips a value that is not an
// object.
func (s *stream) object(each func(key string) error) error {
	if c, err := s.peek(); err != nil {
		return err
	} else if c != '{' {
		return s.skip()
	}
	s.pos++
	for first := true; ; first = false {
		if there, err := s.next(first, '}'); err != nil || !there {
			return err
		}
		if c, err := s.peek(); err != nil {
			return err
		} else if c != '"' {
			return s.fail("a key is expected, not %q", c)
		}
		raw, err := s.value()
		if err != nil {
			return err
		}
		var key string
		if err := json.Unmarshal(raw, &key); err != nil {
			return s.fail("there is no good key")
		}
		if err := s.take(':'); err != nil {
			return err
		}
		if err := each(key); err != nil {
			return err
		}
	}
}

// array reads an array; each must read every element. It skips a value that is not an array.
func (s *stream) array(each func() error) error {
	if c, err := s.peek(); err != nil {
		return err
	} else if c != '[' {
		return s.skip()
	}
	s.pos++
	for first := true; ; first = false {
		if there, err := s.next(first, ']'); err != nil || !there {
			return err
		}
		if err := each(); err != nil {
			return err
		}
	}
}

// value reads a value; it is valid until the next read.
func (s *stream) value() ([]byte, error) {
	if _, err := s.peek(); err != nil {
		return nil, err
	}
	s.held = s.pos
	err := s.skip()
	raw := s.buf[s.held:s.pos]
	s.held = -1
	return raw, err
}

// decode reads a value and decodes it.
func (s *stream) decode(into any) error {
	raw, err := s.value()
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, into)
}

// skip passes over a value.
func (s *stream) skip() error {
	c, err := s.peek()
	if err != nil {
		return err
	}
	switch c {
	case '{', '[':
		return s.skipNested()
	case '"':
		return s.skipString()
	case '}', ']', ',', ':':
		return s.fail("a value is expected, not %q", c)
	}
	return s.skipLiteral()
}

func (s *stream) skipNested() error {
	s.open = s.open[:0]
	for {
		for s.pos < s.end {
			switch c := s.buf[s.pos]; c {
			case '{', '[':
				if len(s.open) == maxDepth {
					return errNesting
				}
				s.open = append(s.open, c+2) // in ASCII the closing one is two further
			case '}', ']':
				if s.open[len(s.open)-1] != c {
					return s.fail("%q is expected, not %q", s.open[len(s.open)-1], c)
				}
				s.open = s.open[:len(s.open)-1]
				if len(s.open) == 0 {
					s.pos++
					return nil
				}
			case '"':
				if err := s.skipString(); err != nil {
					return err
				}
				continue
			}
			s.pos++
		}
		if err := s.more(); err != nil {
			return err
		}
	}
}

// skipString passes over a string; the next byte is its quote.
func (s *stream) skipString() error {
	s.pos++
	escaped := false
	for {
		for s.pos < s.end {
			if escaped {
				escaped = false
				s.pos++
				continue
			}
			rest := s.buf[s.pos:s.end]
			quote := bytes.IndexByte(rest, '"')
			if quote >= 0 {
				rest = rest[:quote]
			}
			if back := bytes.IndexByte(rest, '\\'); back >= 0 {
				s.pos += back + 1
				escaped = true
				continue
			}
			if quote >= 0 {
				s.pos += quote + 1
				return nil
			}
			s.pos = s.end
		}
		if err := s.more(); err != nil {
			return err
		}
	}
}

// skipLiteral skips a number, true, false or null. The end of the file completes it.
func (s *stream) skipLiteral() error {
	start := s.pos
	if s.held < 0 {
		s.held = s.pos
		defer func() { s.held = -1 }()
	}
	start -= s.held
	for {
		for ; s.pos < s.end; s.pos++ {
			switch s.buf[s.pos] {
			case ' ', '\t', '\r', '\n', ',', '}', ']':
				return s.literal(start)
			}
		}
		if err := s.more(); errors.Is(err, errCut) {
			return s.literal(start)
		} else if err != nil {
			return err
		}
	}
}

func (s *stream) literal(start int) error {
	if word := s.buf[s.held+start : s.pos]; !json.Valid(word) {
		return s.fail("%.20q is no value", word)
	}
	return nil
}

// done makes sure that nothing follows.
func (s *stream) done() error {
	c, err := s.peek()
	switch {
	case errors.Is(err, errCut):
		return nil
	case err == nil:
		return s.fail("something follows: %q", c)
	}
	return err
}
