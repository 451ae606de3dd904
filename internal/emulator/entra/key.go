package entra

import (
	"crypto/rand"
	"crypto/rsa"
	"sync"
)

// newKey makes a key for signing tokens.
func newKey(bits int) *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		panic(err) // the size is valid, and the system's random numbers never fail
	}
	return key
}

// SharedKey is one key for all emulators of a process. Tests make hundreds of them, and generating
// a key takes longer than all the rest. It is for tests only: an emulator that shares a key accepts
// the tokens of the others. It is short, because a signature then takes a fifth of the time.
var SharedKey = sync.OnceValue(func() *rsa.PrivateKey { return newKey(1024) })
