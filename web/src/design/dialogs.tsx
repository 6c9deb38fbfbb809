/** What is asked in between: whose key, and what becomes of the seats that are there. */

import { useState } from "preact/hooks";
import { keepAdminKey } from "../api/storage";
import { t } from "../strings";
import { Button } from "../ui/button";
import { Dialog } from "../ui/dialog";
import { TextField } from "../ui/field";
import type { ReadCsv } from "./csv";
import { LineFaults } from "./csv_editor";
import { seatsText } from "./fields";

export function KeyDialog(props: {
  fault: string | null;
  busy: boolean;
  onKey: () => void;
  onClose: () => void;
}) {
  const [typed, setTyped] = useState("");
  const [empty, setEmpty] = useState(false);
  const say = t.design.saved;
  return (
    <Dialog title={say.keyTitle} onClose={props.onClose}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (props.busy) return;
          setEmpty(!typed.trim());
          if (!typed.trim()) return;
          keepAdminKey(typed.trim());
          props.onKey();
        }}
      >
        <p>{say.keyWhy}</p>
        <TextField
          label={t.adminKey.label}
          secret
          value={typed}
          onInput={setTyped}
          hint={t.adminKey.where}
          fault={empty ? t.adminKey.empty : props.fault}
        />
        <div class="row">
          <Button type="submit" kind="primary" busy={props.busy}>
            {t.design.save}
          </Button>
          <Button onClick={props.onClose}>{t.common.cancel}</Button>
        </div>
      </form>
    </Dialog>
  );
}

export type How = "add" | "replace";

export function CsvDialog(props: {
  name: string;
  read: ReadCsv;
  /** Whether there is anything that the new seats could take the place of. */
  occupied: boolean;
  clashes: boolean;
  onUse: (how: How) => void;
  onClose: () => void;
}) {
  const { read } = props;
  const [how, setHow] = useState<How>(props.occupied && !props.clashes ? "add" : "replace");
  const say = t.design.csv;
  const sections = new Set(read.seats.map((seat) => seat.section)).size;
  return (
    <Dialog title={say.title(props.name)} onClose={props.onClose}>
      {read.faulty > 0 ? (
        <>
          <LineFaults faults={read.faults} faulty={read.faulty} />
          <Button onClick={props.onClose}>{t.common.close}</Button>
        </>
      ) : (
        <form
          onSubmit={(event) => {
            event.preventDefault();
            props.onUse(how);
          }}
        >
          <p class="numbers">{say.read(seatsText(read.seats.length), sections)}</p>
          {props.occupied && (
            <fieldset class="design-how">
              <legend>{say.how}</legend>
              {(["add", "replace"] as const).map((each) => (
                <label key={each} class="check">
                  <input
                    type="radio"
                    name="how"
                    checked={how === each}
                    onChange={() => setHow(each)}
                  />
                  <span>{say[each]}</span>
                </label>
              ))}
            </fieldset>
          )}
          <div class="row">
            <Button type="submit" kind="primary">
              {say.use}
            </Button>
            <Button onClick={props.onClose}>{t.common.cancel}</Button>
          </div>
        </form>
      )}
    </Dialog>
  );
}
