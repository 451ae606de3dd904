package entra

import (
	"crypto/rsa"
	"crypto/x509"
	"maps"

	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

// savedKeys are the signing key and its tokens: logins stay valid after a restart.
type savedKeys struct {
	Tokens []byte `json:"tokens"` // PKCS #1
	KeyID  string `json:"keyID"`
}

// things returns the keys that sign tokens, and the registered issuers.
func (s *Entra) things() []kernel.Thing {
	saveKeys := func() any {
		return savedKeys{x509.MarshalPKCS1PrivateKey(s.Identity.Key()), s.Identity.KeyID}
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
		s.Identity.restoreKey(key, keys.KeyID)
		return nil
	}
	restoreIssuers := func(read func(into any) error) error {
		issuers := map[string][]JWK{}
		err := read(&issuers)
		s.Identity.restoreIssuers(issuers)
		return err
	}
	return []kernel.Thing{
		{Name: "keys", Save: saveKeys, Restore: restoreKeys},
		{Name: "issuers", Save: func() any { return s.Identity.keptIssuers() },
			Restore: restoreIssuers},
	}
}

func (i *Identity) keptIssuers() map[string][]JWK {
	i.mu.Lock()
	defer i.mu.Unlock()
	return maps.Clone(i.Issuers)
}

func (i *Identity) restoreIssuers(issuers map[string][]JWK) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.Issuers = issuers
}

func (i *Identity) restoreKey(key *rsa.PrivateKey, id string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.Key, i.KeyID = func() *rsa.PrivateKey { return key }, id
}
