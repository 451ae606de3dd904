package azure

import (
	"crypto/sha256"
	"maps"
	"sync"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
)

// seen caches decoded documents by their IDs, so that an unchanged document is not decoded again.
// Usually nearly all are unchanged. Snapshots share the result, so do not change it.
type seen struct {
	mu    sync.Mutex
	docs  map[string]sight
	swept time.Time
}

// sight is a decoded document with the hash of its bytes and the time of its last read.
type sight struct {
	doc any
	sum [sha256.Size]byte
	at  time.Time
}

// seenFor is how long a document is cached after its last read.
const seenFor = 15 * time.Minute

// decode returns the decoded document.
func (k *seen) decode(id arm.ID, raw []byte, decode func([]byte) (any, error)) (any, error) {
	now, sum := time.Now(), sha256.Sum256(raw)
	k.mu.Lock()
	s, known := k.docs[id.Key()]
	k.mu.Unlock()
	if !known || s.sum != sum {
		doc, err := decode(raw)
		if err != nil {
			return doc, err
		}
		s = sight{doc: doc, sum: sum}
	}
	s.at = now
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.docs == nil {
		k.docs, k.swept = map[string]sight{}, now
	}
	k.docs[id.Key()] = s
	if now.Sub(k.swept) > seenFor {
		k.swept = now
		maps.DeleteFunc(k.docs, func(_ string, s sight) bool { return now.Sub(s.at) > seenFor })
	}
	return s.doc, nil
}
