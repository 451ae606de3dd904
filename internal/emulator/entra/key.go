package entra

import (
	"crypto/rand"
	"crypto/rsa"
	"fmt"
	"sync"
)

// newKey makes a key that signs tokens.
func newKey() (*rsa.PrivateKey, error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, fmt.Errorf("making the key that signs tokens: %w", err)
	}
	return key, nil
}

// SharedKey is one key for all local Azures of a process. Tests make hundreds of them, and a new
// key takes longer than all the rest. It is for tests only: an emulator that shares a key accepts
// the tokens of the others.
var SharedKey = sync.OnceValues(newKey)
