package entra

import (
	"crypto/rand"
	"crypto/rsa"
	"sync"
)

// newKey makes a key for signing tokens.
func newKey() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err) // the size is valid, and the system's random numbers never fail
	}
	return key
}

// SharedKey is one key for all emulators of a process. Tests make hundreds of them, and generating
// a key takes longer than all the rest. It is for tests only: an emulator that shares a key accepts
// the tokens of the others.
var SharedKey = sync.OnceValues(func() (*rsa.PrivateKey, error) { return newKey(), nil })
