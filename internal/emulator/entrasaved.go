package emulator

import (
	"crypto/rsa"
	"crypto/x509"
	"maps"
)

// savedKeys sign tokens: who was logged in stays so.
type savedKeys struct {
	Tokens []byte `json:"tokens"` // PKCS #1
	KeyID  string `json:"keyID"`
}

// keep keeps the keys that sign tokens, and the issuers that were registered.
func (s *entra) keep() {
	s.kernel.keepPart("keys", func() any {
		return savedKeys{x509.MarshalPKCS1PrivateKey(s.identity.key), s.identity.keyID}
	}, func(read func(into any) error) error {
		var keys savedKeys
		if err := read(&keys); err != nil || keys.KeyID == "" {
			return err
		}
		key, err := x509.ParsePKCS1PrivateKey(keys.Tokens)
		if err != nil {
			return err
		}
		s.identity.restoreKey(key, keys.KeyID)
		return nil
	})
	s.kernel.keepPart("issuers", func() any { return s.identity.keptIssuers() },
		func(read func(into any) error) error {
			issuers := map[string][]jwk{}
			err := read(&issuers)
			s.identity.restoreIssuers(issuers)
			return err
		})
}

func (i *identity) keptIssuers() map[string][]jwk {
	i.mu.Lock()
	defer i.mu.Unlock()
	return maps.Clone(i.issuers)
}

func (i *identity) restoreIssuers(issuers map[string][]jwk) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.issuers = issuers
}

func (i *identity) restoreKey(key *rsa.PrivateKey, id string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.key, i.keyID = key, id
}
