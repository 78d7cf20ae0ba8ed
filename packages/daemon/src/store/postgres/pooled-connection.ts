/** A connection of the pool while it is in use. Statements are prepared once per connection. */
import { createHash } from "node:crypto";
import pg from "pg";

/** The class of errors with which Postgres ends a connection. */
const CONNECTION_ENDS = "57P";

export class PooledConnection {
  readonly #client: pg.PoolClient;
  #failure: Error | undefined;

  private constructor(client: pg.PoolClient) {
    this.#client = client;
    // A connection can break between two statements. Without a listener, that ends the process.
    client.on("error", this.#onError);
  }

  static async take(pool: pg.Pool): Promise<PooledConnection> {
    return new PooledConnection(await pool.connect());
  }

  async query(text: string, values: readonly unknown[]): Promise<pg.QueryResult> {
    try {
      return values.length === 0
        ? await this.#client.query(text)
        : await this.#client.query({ name: nameOf(text), text, values: [...values] });
    } catch (error) {
      if (!isRefusal(error) && error instanceof Error) this.#onError(error);
      throw error;
    }
  }

  /** The pool gets it back, unless it broke or a statement did not finish. */
  release(): void {
    this.#client.off("error", this.#onError);
    this.#client.release(this.#failure);
  }

  readonly #onError = (error: Error): void => {
    this.#failure ??= error;
  };
}

/** Whether Postgres refused the statement, and the connection is as good as before. */
function isRefusal(error: unknown): boolean {
  return error instanceof pg.DatabaseError && error.code?.startsWith(CONNECTION_ENDS) === false;
}

const names = new Map<string, string>();

/** Names statements by their text, so Postgres parses and plans each once per connection. */
function nameOf(text: string): string {
  let name = names.get(text);
  if (name === undefined) {
    name = createHash("sha1").update(text).digest("base64url");
    names.set(text, name);
  }
  return name;
}
