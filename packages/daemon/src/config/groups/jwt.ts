/** The keys below `jwt`. */
import {
  absolutePath,
  claimName,
  keySetUrl,
  plainWords,
  publicKeyPem,
  listOf,
  oneOf,
  wholeNumber,
} from "../kinds.ts";
import { group } from "./units.ts";

export const jwt = group({
  issuer: plainWords().optional().meta({
    description:
      "Issuer of tokens (the claim `iss`) that are accepted instead of keys; requires `jwt.audience` and one of `jwt.jwks_file`, `jwt.jwks_uri` and `jwt.public_key`",
    unset: "no tokens are accepted",
  }),
  audience: plainWords().optional().meta({
    description: "Required audience of tokens (the claim `aud`)",
    unset: "none",
  }),
  jwks_file: absolutePath().optional().meta({
    description: "A file with the issuer's public keys as a JSON Web Key Set; read at the start",
    unset: "none",
  }),
  jwks_uri: keySetUrl().optional().meta({
    description: "URL where the issuer serves that set; fetched on demand and cached",
    unset: "none",
  }),
  public_key: publicKeyPem().optional().meta({
    description: "The issuer's public key in PEM",
    unset: "none",
  }),
  algorithms: listOf(
    oneOf("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"),
  )
    .default(["RS256", "ES256", "EdDSA"])
    .meta({ description: "Accepted signature algorithms" }),
  owner_claim: claimName().default("sub").meta({
    description: "The claim that names the owner; the owner is `jwt:` followed by its value",
  }),
  scope_claim: claimName().optional().meta({
    description:
      "The claim that grants scopes, as words or as a list: `sandkasten:admin`, `sandkasten:use` or `sandkasten:read`; a token that grants none is refused",
    unset: "every token has the scope `use`",
  }),
  clock_skew_seconds: wholeNumber(0, 300).default(30).meta({
    description: "Tolerated difference to the issuer's clock",
  }),
});
