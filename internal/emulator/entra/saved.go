package entra

import (
	"crypto/x509"
	"encoding/json"

	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

// savedKeys is the key that signs tokens. It is saved, so that logins stay valid after a restart.
type savedKeys struct {
	Tokens []byte `json:"tokens"` // PKCS #1
	KeyID  string `json:"keyID"`
}

// things returns the key that signs tokens, and the registered issuers.
func (s *Entra) things() []kernel.Thing {
	saveKeys := func() any {
		return savedKeys{x509.MarshalPKCS1PrivateKey(s.Identity.Key()), s.Identity.KeyID}
	}
	restoreKeys := func(raw []byte) error {
		var keys savedKeys
		if err := json.Unmarshal(raw, &keys); err != nil {
			return err
		}
		key, err := x509.ParsePKCS1PrivateKey(keys.Tokens)
		if err != nil {
			return err
		}
		s.Identity.setKey(key, keys.KeyID)
		return nil
	}
	return []kernel.Thing{
		{Name: "keys", Save: saveKeys, Restore: restoreKeys},
		kernel.ThingAt("issuers", &s.Identity.Issuers),
	}
}
