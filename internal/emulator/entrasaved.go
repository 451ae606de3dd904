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

// things are the keys that sign tokens, and the issuers that were registered.
func (s *entra) things() []thing {
	saveKeys := func() any {
		return savedKeys{x509.MarshalPKCS1PrivateKey(s.identity.key), s.identity.keyID}
	}
	restoreKeys := func(read func(into any) error) error {
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
	}
	restoreIssuers := func(read func(into any) error) error {
		issuers := map[string][]jwk{}
		err := read(&issuers)
		s.identity.restoreIssuers(issuers)
		return err
	}
	return []thing{
		{"keys", saveKeys, restoreKeys},
		{"issuers", func() any { return s.identity.keptIssuers() }, restoreIssuers},
	}
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
