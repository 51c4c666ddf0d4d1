// Shows the server's own description, and asks nobody else: no validator, no query
// that points elsewhere.
SwaggerUIBundle({
  url: 'openapi.yaml',
  dom_id: '#docs',
  deepLinking: true,
  displayRequestDuration: true,
  docExpansion: 'list',
  defaultModelsExpandDepth: 0,
  queryConfigEnabled: false,
  validatorUrl: null,
});
