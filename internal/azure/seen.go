package azure

import (
	"crypto/sha256"
	"maps"
	"sync"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
)

// seen keeps what documents were decoded to, by their IDs, so that one that reads the same the next time is not decoded again: at rest
// nearly all do. Snapshots share what comes out, which nobody changes.
type seen[T any] struct {
	mu    sync.Mutex
	docs  map[string]sight[T]
	swept time.Time
}

// sight is a document as it was decoded, with the sum of its bytes, and when it was last read.
type sight[T any] struct {
	doc T
	sum [sha256.Size]byte
	at  time.Time
}

// seenFor is for how long a document is kept that is not read any more.
const seenFor = 15 * time.Minute

// decode returns what a document says.
func (k *seen[T]) decode(id arm.ID, raw []byte, decode func([]byte) (T, error)) (T, error) {
	now, sum := time.Now(), sha256.Sum256(raw)
	k.mu.Lock()
	s, known := k.docs[id.Key()]
	k.mu.Unlock()
	if !known || s.sum != sum {
		doc, err := decode(raw)
		if err != nil {
			return doc, err
		}
		s = sight[T]{doc: doc, sum: sum}
	}
	s.at = now
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.docs == nil {
		k.docs, k.swept = map[string]sight[T]{}, now
	}
	k.docs[id.Key()] = s
	if now.Sub(k.swept) > seenFor {
		k.swept = now
		maps.DeleteFunc(k.docs, func(_ string, s sight[T]) bool { return now.Sub(s.at) > seenFor })
	}
	return s.doc, nil
}
