import { useEffect, useId, useState } from "preact/hooks";
import { t } from "../strings";
import { Button } from "../ui/button";
import { Dialog } from "../ui/dialog";
import { useDesign } from "./context";
import { HEADER, type LineFault, readCsv, writeCsv } from "./csv";
import { seatsText } from "./fields";
import { depthOf } from "./house";
import type { Seat } from "./model";

export function CsvEditor(props: {
  title: string;
  seats: Seat[];
  onUse: (seats: Seat[]) => void;
  onClose: () => void;
}) {
  const { draft } = useDesign();
  const id = useId();
  const [text, setText] = useState(() =>
    props.seats.length ? writeCsv(props.seats) : `${HEADER.join(",")}\n`,
  );
  const [tried, setTried] = useState(props.seats.length > 0);
  const [read, setRead] = useState(() => readCsv(text, depthOf(draft)));
  useEffect(() => {
    const timer = setTimeout(() => setRead(readCsv(text, depthOf(draft))), 100);
    return () => clearTimeout(timer);
  }, [text]);
  const use = () => {
    const now = readCsv(text, depthOf(draft));
    setRead(now);
    setTried(true);
    if (!now.faulty) props.onUse(now.seats);
  };
  const say = t.design.seats;
  return (
    <Dialog title={props.title} onClose={props.onClose}>
      <div class="field">
        <label for={id}>{say.text}</label>
        <textarea
          id={id}
          class="mono design-csv"
          rows={12}
          spellcheck={false}
          wrap="off"
          value={text}
          aria-invalid={tried && read.faulty > 0}
          onInput={(input) => {
            setText(input.currentTarget.value);
            setTried(true);
          }}
        />
      </div>
      {tried && read.faulty > 0 ? (
        <LineFaults faults={read.faults} faulty={read.faulty} />
      ) : (
        <p class="soft numbers">{seatsText(read.seats.length)}</p>
      )}
      <div class="row">
        <Button kind="primary" onClick={use}>
          {say.keep}
        </Button>
        <Button onClick={props.onClose}>{t.common.cancel}</Button>
      </div>
    </Dialog>
  );
}

export function LineFaults({ faults, faulty }: { faults: LineFault[]; faulty: number }) {
  const say = t.design.csv;
  return (
    <div class="notice bad" role="alert">
      <p>
        {say.faults(faulty)} {faulty > faults.length && say.first(faults.length)}
      </p>
      <ul class="design-faults">
        {faults.map((fault) => (
          <li key={`${fault.line} ${fault.text}`}>{say.line(fault.line, fault.text)}</li>
        ))}
      </ul>
    </div>
  );
}
