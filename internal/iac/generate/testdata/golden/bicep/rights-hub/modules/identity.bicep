param name string
param location string
param issuer string
param subject string

resource identity 'Microsoft.ManagedIdentity/userAssignedIdentities@2024-11-30' = {
  name: '${name}-keeper'
  location: location
}

// Its pods log in as this service account, without a secret.
resource credential 'Microsoft.ManagedIdentity/userAssignedIdentities/federatedIdentityCredentials@2024-11-30' = if (!empty(issuer)) {
  parent: identity
  name: 'routekeeper'
  properties: {
    issuer: issuer
    subject: subject
    audiences: ['api://AzureADTokenExchange']
  }
}

output principalId string = identity.properties.principalId
output clientId string = identity.properties.clientId
